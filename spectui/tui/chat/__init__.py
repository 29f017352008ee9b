"""The live screen: the chat, and beside it what speculation does on this machine."""
