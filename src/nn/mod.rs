//! Layers, models, optimisers, training and checkpoints.
//!
//! - [`Features`]: what a layer takes, dense or sparse.
//! - [`Linear`], [`GcnConv`], [`SageConv`], [`GinConv`], [`GineConv`], [`SgConv`], [`ChebConv`],
//!   [`GatConv`], [`GatV2Conv`], [`TransformerConv`], [`PnaConv`]: layers with PyTorch Geometric's formulas and
//!   parameter names.
//! - [`BatchNorm`], [`LayerNorm`]: what stands between them.
//! - [`Gnn`]: a stack of them, from a [`GnnBuilder`].
//! - [`Readout`], [`GraphClassifier`]: from the nodes of small graphs to a class of each.
//! - [`Adam`]: the optimiser; [`Trainer`]: full-batch training; [`GraphTrainer`]: training on batches of graphs;
//!   [`checkpoint`]: weights in files.
//! - [`accuracy`], [`auroc`], [`stratified_folds`]: how well a model does.

mod attention;
mod cheb;
pub mod checkpoint;
mod conv;
mod error;
mod evaluate;
mod features;
mod gat;
mod gatv2;
mod gcn;
mod gin;
mod graph_classifier;
mod jumping;
mod linear;
mod model;
mod norm;
mod optim;
mod parameter;
mod pna;
mod readout;
mod sage;
mod sg;
mod train;
mod transformer;

pub use attention::GatOptions;
pub use cheb::{ChebConv, Laplacian};
pub use conv::{Conv, ConvInput};
pub use error::NnError;
pub use evaluate::{accuracy, auroc, stratified_folds};
pub use features::{FeatureInput, Features};
pub use gat::GatConv;
pub use gatv2::GatV2Conv;
pub use gcn::{GcnConv, GcnOptions};
pub use gin::{GinConv, GineConv};
use graph_classifier::CLASSIFIER_KEY;
pub use graph_classifier::{BatchInput, GraphClassifier, GraphTrainer};
pub use linear::{Linear, Mlp};
pub use model::{Gnn, GnnBuilder, LayerKind, StoredModel};
pub use norm::{BatchNorm, LayerNorm, Norm};
pub use optim::{Adam, AdamOptions, LossScaling};
pub use parameter::{Initializer, Module, Parameter, Visitor};
pub use pna::{AverageDegree, PnaConv, PnaOptions, Scaler};
pub use readout::Readout;
pub use sage::{Aggregation, SageConv, SageOptions};
pub use sg::SgConv;
pub use train::{Targets, Trainer};
pub use transformer::{TransformerConv, TransformerOptions};
