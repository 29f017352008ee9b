"""Text as a model gives it, made fit for a screen: decoding, safe display, wrapping. No widgets."""
