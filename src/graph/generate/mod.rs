//! Graphs made from a formula.
