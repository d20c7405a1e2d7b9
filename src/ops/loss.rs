use super::{OpError, Tape, Var, error::expect, to_dtype};
use crate::{
    backend::{DType, Device, Indices, Tensor},
    matrix::Matrix,
};

/// The class of each node, and the nodes that count.
#[derive(Clone, Debug)]
pub struct ClassTargets {
    labels: Indices,
    weight: Tensor,
    num_classes: usize,
}

/// Any number of labels a node, and the nodes that count.
#[derive(Clone, Debug)]
pub struct MultiTargets {
    targets: Tensor,
    weight: Tensor,
}

impl ClassTargets {
    /// `labels[i]` is the class of node `i`; the loss is the mean over `nodes`.
    ///
    /// # Errors
    /// If a label of a node that counts is not below `num_classes`, a node does not exist or none counts.
    pub fn new(device: &Device, labels: &[u32], num_classes: u32, nodes: &[u32]) -> Result<Self, OpError> {
        let weight = weights("cross_entropy", labels.len(), nodes)?;
        if let Some(&i) = nodes.iter().find(|&&i| labels[i as usize] >= num_classes) {
            return Err(OpError::Argument {
                op: "cross_entropy",
                what: "a label",
                got: format!("{} (node {i})", labels[i as usize]),
                expected: format!("a class below {num_classes}"),
            });
        }
        Ok(Self {
            labels: Indices::new(device, labels, "labels")?,
            weight: Tensor::from_column(device, &weight, "loss weights")?,
            num_classes: num_classes as usize,
        })
    }
}

impl MultiTargets {
    /// `targets` is `[nodes, labels]` in 0..1; the loss is the mean over `nodes` and labels.
    ///
    /// # Errors
    /// If a target is outside 0..1, a node does not exist or none counts.
    pub fn new(device: &Device, targets: &Matrix, nodes: &[u32]) -> Result<Self, OpError> {
        let weight = weights("binary_cross_entropy", targets.rows(), nodes)?;
        if let Some(at) = targets.data().iter().position(|t| !(0.0..=1.0).contains(t)) {
            return Err(OpError::Argument {
                op: "binary_cross_entropy",
                what: "a target",
                got: format!("{} (node {})", targets.data()[at], at / targets.cols()),
                expected: "a number from 0 to 1".into(),
            });
        }
        Ok(Self {
            targets: Tensor::from_matrix(device, targets, "targets")?,
            weight: Tensor::from_column(device, &weight, "loss weights")?,
        })
    }
}

/// `1 / nodes.len()` for the nodes that count, 0 for the others.
fn weights(op: &'static str, num_nodes: usize, nodes: &[u32]) -> Result<Vec<f32>, OpError> {
    if nodes.is_empty() {
        return Err(OpError::Argument {
            op,
            what: "the number of nodes that count",
            got: "0".into(),
            expected: "at least 1".into(),
        });
    }
    let mut weight = vec![0.0; num_nodes];
    for &i in nodes {
        *weight.get_mut(i as usize).ok_or_else(|| OpError::Argument {
            op,
            what: "a node",
            got: i.to_string(),
            expected: format!("an id below {num_nodes}"),
        })? += 1.0 / nodes.len() as f32;
    }
    Ok(weight)
}

/// The mean over the nodes that count of `log sum_c exp(x_ic) - x_i,label(i)`, a `[1, 1]` variable; `x` is `[nodes, classes]`.
///
/// # Errors
/// If the shapes do not fit, or what the device reports.
pub fn cross_entropy(tape: &Tape, x: &Var, targets: &ClassTargets) -> Result<Var, OpError> {
    expect("cross_entropy", "the logits", x.tensor(), [targets.labels.len(), targets.num_classes.max(1)])?;
    masked_loss(tape, x, |x, losses, grad| {
        Ok(x.device().cross_entropy(x, &targets.labels, &targets.weight, losses, grad)?)
    })
}

/// The mean over the nodes that count and their labels of `max(x, 0) - x t + log(1 + exp(-|x|))`, a `[1, 1]` variable.
///
/// # Errors
/// If the shapes do not fit, or what the device reports.
pub fn binary_cross_entropy(tape: &Tape, x: &Var, targets: &MultiTargets) -> Result<Var, OpError> {
    expect("binary_cross_entropy", "the logits", x.tensor(), targets.targets.shape())?;
    masked_loss(tape, x, |x, losses, grad| {
        Ok(x.device().binary_cross_entropy(x, &targets.targets, &targets.weight, losses, grad)?)
    })
}

/// Adds up the losses of the rows. Their gradient is ready by then, but for the factor that reaches the sum.
fn masked_loss(
    tape: &Tape,
    x: &Var,
    kernel: impl Fn(&Tensor, &Tensor, &Tensor) -> Result<(), OpError>,
) -> Result<Var, OpError> {
    // Halves of logits would lose the differences that a loss is about.
    let x = &to_dtype(tape, x, DType::F32)?;
    let device = tape.device();
    let losses = Tensor::uninit(device, x.shape()[0], 1, "losses")?;
    let grad = x.tensor().like("gradient of a loss")?;
    kernel(x.tensor(), &losses, &grad)?;
    let loss = Tensor::uninit(device, 1, 1, "loss")?;
    device.column_sums(&losses, &loss, false)?;
    tape.record(loss, &[x], move |g, sink| {
        let scaled = grad.like("gradient of a loss")?;
        g.device().scale_add(0.0, g, &grad, None, &scaled)?;
        sink.give(0, scaled)
    })
}
