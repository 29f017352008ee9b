"""A model's vocabulary and chat template, as another model is held against them."""

from spectui.llama.model import Model
from spectui.models.pairs import Outline, Token, Tokenizer, readable


def outline(model: Model) -> Outline:
    """Take down what pairs are judged by. It stays when the model is closed."""
    vocabulary = model.vocabulary
    tokenizer = Tokenizer(
        type_name=vocabulary.type_name,
        pre=model.metadata("tokenizer.ggml.pre"),
        n_tokens=vocabulary.n_tokens,
        bos=vocabulary.bos,
        eos=vocabulary.eos,
        end_tokens=tuple(
            Token(id=id_, text=readable(vocabulary.text(id_)))
            for id_ in sorted(vocabulary.end_tokens)
        ),
    )
    return Outline(tokenizer=tokenizer, texts=vocabulary.texts, chat_template=model.chat_template)
