"""The parts of the study of LazyLLM; `fewer.study.packaged` says what they are."""
