"""Where the columns of a log come from: one file per format, each with a `Source`.

- `base.py`: `Source`, and the sentences on what cannot be read.
- `formats.py`: the table of formats, and `open_source`, which finds the source of whatever `read` takes.
- `places.py`: files, folders and patterns, on this machine and in object stores.
- `files.py`: `FilesSource`, several files of one format and one schema, in pieces, and what such a format needs: `parquet.py` and
  `arrow.py`, whose files tell the types of their columns, and `csv.py`, a `LinesSource`, in whose files only the data tell them.
- `arrays.py`, `minari.py`: sources that are read as a whole.
"""
