"""What a package that adds parts builds on, beside the names of :mod:`atc`: one page for each kind of work.

:mod:`atc.plugins.strategies` is for strategies, :mod:`atc.plugins.learning` for trainings and searches, and
:mod:`atc.plugins.commands` for commands. :mod:`atc.parts` has the kinds of parts and their entry points.
"""
