"""Predicts from one recording what thousands of settings would have drafted and had accepted.

Greedy and seeded output does not depend on the draft, so the target's output and the draft's chain
at every position of it decide what every setting drafts and what of it is accepted. No model and no
ctypes here.
"""
