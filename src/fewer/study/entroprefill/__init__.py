"""The parts of the study of EntroPrefill; `fewer.study.packaged` says what they are."""
