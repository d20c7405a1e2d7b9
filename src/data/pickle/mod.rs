//! Python pickles of the few kinds that Planetoid's files consist of. Nothing is executed.
//!
//! The machine knows the opcodes and globals that those files use and refuses all others by name and place. Objects live in one vector and
//! refer to each other by index, so that a pickle may nest as deep as it likes without recursion, and every step of the machine makes at
//! most one object.

mod array;
mod machine;
#[cfg(test)]
mod tests;

pub(super) use self::{
    array::{Ints, csr_matrix, int_matrix},
    machine::{Object, Pickle, Value, unpickle},
};
