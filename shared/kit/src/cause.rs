//! Abstracts over errors and types that contain one, such as boxes.

use std::error::Error;

/// The error type of an operation: an [`Error`], or a type that contains one without implementing the trait, such
/// as `lambda_runtime::Error` and `anyhow::Error`.
///
/// `Form` distinguishes the two cases. The compiler always infers it.
///
/// ```
/// use comeback::retry::Cause;
///
/// fn text<F>(cause: &impl Cause<F>) -> String {
///     cause.as_error().to_string()
/// }
///
/// let error = "twelve".parse::<u32>().unwrap_err();
/// assert_eq!(text(&error), text(&lambda_runtime::Error::from(error.clone())));
/// ```
pub trait Cause<Form> {
    /// Returns the error.
    fn as_error(&self) -> &(dyn Error + 'static);
}

/// The form of a [`Cause`] that is itself an [`Error`].
#[derive(Debug)]
pub enum Itself {}

/// The form of a [`Cause`] that contains an [`Error`], accessible with `AsRef`.
#[derive(Debug)]
pub enum Referring {}

impl<E: Error + 'static> Cause<Itself> for E {
    fn as_error(&self) -> &(dyn Error + 'static) {
        self
    }
}

impl<E: AsRef<dyn Error + Send + Sync>> Cause<Referring> for E {
    fn as_error(&self) -> &(dyn Error + 'static) {
        self.as_ref()
    }
}
