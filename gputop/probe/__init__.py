"""The program that runs on a node: standard library and pynvml only, Python 3.6 and later; never imports gputop.

Its modules import each other relatively, since on a node the package is called gputop_probe and comes over the wire.
"""
