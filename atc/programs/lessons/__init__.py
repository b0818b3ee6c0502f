"""A finished run teaches which tools led to its answer, and which field of which response fed which argument.

The data flow of the program that answered (:mod:`atc.programs.analysis.flow`) says where an argument can come from;
the calls that were really made say whether it did: an edge needs a call of each of the two tools, and a value that is
the same on both sides. So an edge is exact, where the paper counts which tools occur together (NaviAgent §3.2.1).
"""
