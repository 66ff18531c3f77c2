"""`python -m research.practice`: the command of the study."""

from cesaro.commands.studies import run_alone

run_alone("research.practice")
