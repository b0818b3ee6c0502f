"""The ways in beside Python and the terminal."""
