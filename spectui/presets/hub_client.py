"""What is sent to the hub with: proxies, certificates and the token are the environment's."""

import httpx2
from huggingface_hub import constants, get_session
from huggingface_hub.errors import OIDCError
from huggingface_hub.utils import build_hf_headers

from spectui import __version__
from spectui.errors import BadInputError

_PROXIES = "ALL_PROXY, HTTPS_PROXY or HTTP_PROXY"


def open_client() -> httpx2.Client:
    """Return huggingface_hub's client, which it shares.

    Raises:
        BadInputError: the environment names proxies or certificates that cannot be used.
    """
    try:
        return get_session()
    except ImportError as error:
        raise BadInputError(
            f"{_PROXIES} names a SOCKS proxy, for which a package is missing; run pip install "
            "socksio, or name an HTTP proxy"
        ) from error
    except OSError as error:
        raise BadInputError(
            "the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read "
            f"({error.strerror or error}); correct or unset it"
        ) from error
    except (ValueError, httpx2.InvalidURL) as error:
        raise BadInputError(
            f"{_PROXIES} names no proxy that can be used ({error}); correct or unset it"
        ) from error


def make_headers() -> dict[str, str]:
    """Return who asks, with the token where there is one.

    Raises:
        BadInputError: no token can be had, or it is none.
    """
    try:
        headers = build_hf_headers(library_name="spectui", library_version=__version__)
    except OIDCError as error:
        raise BadInputError(
            "HF_OIDC_RESOURCE is set, and no token can be had for it here; set HF_OIDC_ID_TOKEN as "
            "well, or unset it"
        ) from error
    except (PermissionError, IsADirectoryError, UnicodeDecodeError) as error:
        raise BadInputError(
            f"the token in {constants.HF_TOKEN_PATH} cannot be read; make it readable, or set "
            "HF_TOKEN"
        ) from error
    token = headers.get("authorization", "")
    if not (token.isascii() and token.isprintable()):
        raise BadInputError(
            "HF_TOKEN, or the token that was stored at login, has characters that no token has; "
            "copy it once more"
        )
    return headers
