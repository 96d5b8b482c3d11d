"""What an adversary gets: the paper's hardness results as running code, and attacks on our own releases.

Every attack says what it assumes the adversary to know, and ends within its time limit.
"""

ATTACKS = {
    "reconstruct": "reconstruction",
    "linear": "linear",
    "probe": "probe",
    "leak": "joint_leak",
    "membership": "membership",
    "confounder": "confounder",
    "hardness": "hardness",
}
"""Name on the command line -> module of this package, imported when it is asked for.

A module has NAME, TITLE and ASSUMES: what the adversary is assumed to know. Its results have to_dict() and sentence().
All but the first have study(), which makes curves of what the attack gets.
"""
