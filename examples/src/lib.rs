//! Nothing to see here: the examples stand beside this folder, one file each.
