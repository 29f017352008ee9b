"""Record once, try thousands: what any setting would have done, from one recording.

Greedy and seeded output does not depend on the draft, so the target's output and the draft's chain
at every position of it decide what every setting drafts and what of it is accepted. No model and no
ctypes here.
"""
