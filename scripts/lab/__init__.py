"""The broker lab: real clients live scripted group lives on a real broker, and what it wrote and said is kept.

``lives`` has the scripts, ``life`` and ``member`` the words they are written in, ``recording`` what is kept. The folder
has the form of the recorded samples, so that whatever judges those judges it too; ``README.md`` says what is in it.
"""
