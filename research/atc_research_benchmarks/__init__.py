"""The benchmarks of what research/ trains and searches: ``python -m atc_research_benchmarks.NAME``, in a checkout."""
