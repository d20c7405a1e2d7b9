//! Layers, models, optimisers, training and checkpoints.
//!
//! - [`Features`]: what a layer takes, dense or sparse.
//! - [`Linear`], [`GcnConv`], [`SageConv`], [`GinConv`], [`GineConv`], [`SgConv`], [`ChebConv`],
//!   [`GatConv`], [`GatV2Conv`], [`TransformerConv`], [`PnaConv`]: layers with PyTorch Geometric's formulas and
//!   parameter names.
//! - [`BatchNorm`], [`LayerNorm`]: what stands between them.
//! - [`Gnn`]: a stack of them, from a [`GnnBuilder`].
//! - [`Adam`]: the optimiser; [`Trainer`]: full-batch training; [`checkpoint`]: weights in files.

mod attention;
mod cheb;
pub mod checkpoint;
mod conv;
mod error;
mod features;
mod gat;
mod gatv2;
mod gcn;
mod gin;
mod jumping;
mod linear;
mod model;
mod norm;
mod optim;
mod parameter;
mod pna;
mod sage;
mod sg;
mod train;
mod transformer;

pub use attention::GatOptions;
pub use cheb::{ChebConv, Laplacian};
pub use conv::{Conv, ConvInput};
pub use error::NnError;
pub use features::{FeatureInput, Features};
pub use gat::GatConv;
pub use gatv2::GatV2Conv;
pub use gcn::{GcnConv, GcnOptions};
pub use gin::{GinConv, GineConv};
pub use linear::{Linear, Mlp};
pub use model::{Gnn, GnnBuilder, LayerKind, StoredModel};
pub use norm::{BatchNorm, LayerNorm, Norm};
pub use optim::{Adam, AdamOptions};
pub use parameter::{Initializer, Module, Parameter, Visitor};
pub use pna::{AverageDegree, PnaConv, PnaOptions, Scaler};
pub use sage::{Aggregation, SageConv, SageOptions};
pub use sg::SgConv;
pub use train::{Targets, Trainer, accuracy};
pub use transformer::{TransformerConv, TransformerOptions};
