"""What others would do instead, to compare with.

Modules: `block_rados`.
"""
