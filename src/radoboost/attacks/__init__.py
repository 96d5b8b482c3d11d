"""What an adversary gets: the paper's hardness results as running code, and attacks on our own releases.

Every attack says what it assumes the adversary to know, and ends within its time limit.
"""
