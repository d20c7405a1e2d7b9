//! Reading graphs.
