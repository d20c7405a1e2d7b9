use std::collections::HashMap;

use crate::data::{DataError, input::Input};

/// What stands on the stack: small values themselves, others by their index among the objects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::data) enum Value<'a> {
    None,
    Bool(bool),
    Int(i64),
    Bytes(&'a [u8]),
    Global(Global),
    Object(usize),
}

/// The functions and classes that may be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::data) enum Global {
    CsrMatrix,
    Reconstruct,
    NdArray,
    DType,
    DefaultDict,
    List,
}

/// What lives among the objects.
#[derive(Debug)]
pub(in crate::data) enum Object<'a> {
    Tuple(Vec<Value<'a>>),
    List(Vec<Value<'a>>),
    /// Keys and values in the order in which they were set.
    Dict(Vec<(Value<'a>, Value<'a>)>),
    /// Its code, as in `i4`, and its byte order once that is set.
    DType(&'a [u8], Option<u8>),
    /// Its state once that is set: version, shape, type, order and bytes.
    Array(Option<Value<'a>>),
    /// Its attributes once they are set.
    Csr(Option<Value<'a>>),
}

/// A pickle that has been read: the result and the objects that it refers to.
pub(in crate::data) struct Pickle<'a> {
    pub(in crate::data) result: Value<'a>,
    objects: Vec<Object<'a>>,
}

impl<'a> Pickle<'a> {
    /// The object that a value refers to, if it does.
    pub(in crate::data) fn object(&self, value: Value<'a>) -> Option<&Object<'a>> {
        match value {
            Value::Object(index) => self.objects.get(index),
            _ => None,
        }
    }

    /// The entries of a tuple.
    pub(in crate::data) fn tuple(&self, value: Value<'a>) -> Option<&[Value<'a>]> {
        match self.object(value)? {
            Object::Tuple(values) => Some(values),
            _ => None,
        }
    }
}

struct Machine<'a, 'i> {
    input: &'i Input<'a>,
    at: usize,
    /// Where the opcode in progress stands.
    opcode_at: usize,
    stack: Vec<Value<'a>>,
    marks: Vec<usize>,
    memo: HashMap<u32, Value<'a>>,
    objects: Vec<Object<'a>>,
}

/// Reads the pickle that a file consists of.
pub(in crate::data) fn unpickle<'a>(input: &Input<'a>) -> Result<Pickle<'a>, DataError> {
    let mut machine = Machine {
        input,
        at: 0,
        opcode_at: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        objects: Vec::new(),
    };
    loop {
        machine.opcode_at = machine.at;
        let opcode = machine.byte()?;
        if opcode == b'.' {
            return Ok(Pickle { result: machine.pop()?, objects: machine.objects });
        }
        machine.step(opcode)?;
    }
}

impl<'a> Machine<'a, '_> {
    fn step(&mut self, opcode: u8) -> Result<(), DataError> {
        match opcode {
            // PROTO
            0x80 => match self.byte()? {
                2 => {}
                version => return Err(self.error("protocol 2", format!("protocol {version}"))),
            },
            // MARK
            b'(' => self.marks.push(self.stack.len()),
            // NONE, NEWTRUE, NEWFALSE
            b'N' => self.stack.push(Value::None),
            0x88 => self.stack.push(Value::Bool(true)),
            0x89 => self.stack.push(Value::Bool(false)),
            // BININT, BININT1, BININT2
            b'J' => {
                let value = i32::from_le_bytes(self.array()?);
                self.stack.push(Value::Int(value.into()));
            }
            b'K' => {
                let value = self.byte()?;
                self.stack.push(Value::Int(value.into()));
            }
            b'M' => {
                let value = u16::from_le_bytes(self.array()?);
                self.stack.push(Value::Int(value.into()));
            }
            // BINSTRING, SHORT_BINSTRING
            b'T' => {
                let len = i32::from_le_bytes(self.array()?);
                let len =
                    usize::try_from(len).map_err(|_| self.error("a length that is not negative", len.to_string()))?;
                self.bytes(len)?;
            }
            b'U' => {
                let len = self.byte()?;
                self.bytes(len.into())?;
            }
            // EMPTY_TUPLE, TUPLE1, TUPLE2, TUPLE3, TUPLE
            b')' => self.make(Object::Tuple(Vec::new())),
            0x85 => self.tuple(1)?,
            0x86 => self.tuple(2)?,
            0x87 => self.tuple(3)?,
            b't' => {
                let values = self.pop_mark()?;
                self.make(Object::Tuple(values));
            }
            // EMPTY_LIST, EMPTY_DICT
            b']' => self.make(Object::List(Vec::new())),
            b'}' => self.make(Object::Dict(Vec::new())),
            // APPEND, APPENDS, SETITEMS
            b'a' => {
                let value = self.pop()?;
                self.list()?.push(value);
            }
            b'e' => {
                let values = self.pop_mark()?;
                self.list()?.extend(values);
            }
            b'u' => self.set_items()?,
            // BINPUT, LONG_BINPUT, BINGET
            b'q' => {
                let key = self.byte()?;
                self.put(key.into())?;
            }
            b'r' => {
                let key = u32::from_le_bytes(self.array()?);
                self.put(key)?;
            }
            b'h' => {
                let key = self.byte()?;
                let value = self.memo.get(&key.into()).copied();
                self.stack.push(value.ok_or_else(|| self.error("a value kept before", format!("memo key {key}")))?);
            }
            b'c' => self.global()?,
            b'R' => self.reduce()?,
            0x81 => self.new_object()?,
            b'b' => self.build()?,
            _ => {
                return Err(self.error(
                    "an opcode of a Planetoid pickle (protocol 2)",
                    format!("{opcode:#04x} (`{}`)", char::from(opcode).escape_default()),
                ));
            }
        }
        Ok(())
    }

    fn error(&self, expected: &str, found: impl Into<String>) -> DataError {
        self.input.byte_error(self.opcode_at, expected, found)
    }

    fn cut(&self) -> DataError {
        self.input.truncated(format!("the pickle's opcode at byte {} reaches past the end", self.opcode_at))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], DataError> {
        let end = self.at.checked_add(len).ok_or_else(|| self.cut())?;
        let bytes = self.input.bytes.get(self.at..end).ok_or_else(|| self.cut())?;
        self.at = end;
        Ok(bytes)
    }

    fn byte(&mut self) -> Result<u8, DataError> {
        Ok(self.take(1)?[0])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DataError> {
        self.take(N)?.first_chunk().copied().ok_or_else(|| self.cut())
    }

    fn bytes(&mut self, len: usize) -> Result<(), DataError> {
        let bytes = self.take(len)?;
        self.stack.push(Value::Bytes(bytes));
        Ok(())
    }

    fn make(&mut self, object: Object<'a>) {
        self.stack.push(Value::Object(self.objects.len()));
        self.objects.push(object);
    }

    /// The lowest stack position that may be popped: what lies under a mark belongs to whoever set it.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<Value<'a>, DataError> {
        let top = self.stack.get(self.floor()..).and_then(<[_]>::last).copied();
        top.ok_or_else(|| self.error("a value on the stack", "an empty stack"))
    }

    fn pop(&mut self) -> Result<Value<'a>, DataError> {
        let value = self.top()?;
        self.stack.pop();
        Ok(value)
    }

    fn pop_mark(&mut self) -> Result<Vec<Value<'a>>, DataError> {
        let mark = self.marks.pop().ok_or_else(|| self.error("a mark before", "none"))?;
        Ok(self.stack.split_off(mark))
    }

    fn tuple(&mut self, len: usize) -> Result<(), DataError> {
        let start = self.stack.len().checked_sub(len).filter(|&start| start >= self.floor());
        let start = start.ok_or_else(|| self.error("enough values on the stack", "too few"))?;
        let values = self.stack.split_off(start);
        self.make(Object::Tuple(values));
        Ok(())
    }

    fn put(&mut self, key: u32) -> Result<(), DataError> {
        let value = self.top()?;
        self.memo.insert(key, value);
        Ok(())
    }

    fn object_on_top(&mut self) -> Result<Option<&mut Object<'a>>, DataError> {
        match self.top()? {
            Value::Object(index) => Ok(self.objects.get_mut(index)),
            _ => Ok(None),
        }
    }

    fn list(&mut self) -> Result<&mut Vec<Value<'a>>, DataError> {
        let (input, at) = (self.input, self.opcode_at);
        match self.object_on_top()? {
            Some(Object::List(values)) => Ok(values),
            _ => Err(input.byte_error(at, "a list to append to", "something else")),
        }
    }

    fn set_items(&mut self) -> Result<(), DataError> {
        let items = self.pop_mark()?;
        let (input, at) = (self.input, self.opcode_at);
        match self.object_on_top()? {
            Some(Object::Dict(entries)) if items.len().is_multiple_of(2) => {
                entries.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])));
                Ok(())
            }
            _ => Err(input.byte_error(at, "a dictionary and pairs of keys and values", "something else")),
        }
    }

    /// GLOBAL: two lines, module and name.
    fn global(&mut self) -> Result<(), DataError> {
        let module = self.line()?;
        let name = self.line()?;
        let global = match (module, name) {
            (b"scipy.sparse.csr", b"csr_matrix") => Global::CsrMatrix,
            (b"numpy.core.multiarray", b"_reconstruct") => Global::Reconstruct,
            (b"numpy", b"ndarray") => Global::NdArray,
            (b"numpy", b"dtype") => Global::DType,
            (b"collections", b"defaultdict") => Global::DefaultDict,
            (b"__builtin__", b"list") => Global::List,
            _ => {
                let text =
                    |line: &[u8]| String::from_utf8_lossy(&line[..line.len().min(60)]).escape_debug().to_string();
                return Err(self.error(
                    "a class of NumPy arrays, SciPy matrices or dictionaries",
                    format!("the global `{} {}`, which is not loaded", text(module), text(name)),
                ));
            }
        };
        self.stack.push(Value::Global(global));
        Ok(())
    }

    fn line(&mut self) -> Result<&'a [u8], DataError> {
        let len = self.input.bytes[self.at..].iter().position(|&b| b == b'\n').ok_or_else(|| self.cut())?;
        let line = self.take(len)?;
        self.at += 1;
        Ok(line)
    }

    fn tuple_values(&self, value: Value<'a>) -> &[Value<'a>] {
        match value {
            Value::Object(index) => match self.objects.get(index) {
                Some(Object::Tuple(values)) => values,
                _ => &[],
            },
            _ => &[],
        }
    }

    /// REDUCE: a function and the tuple of its arguments.
    fn reduce(&mut self) -> Result<(), DataError> {
        let arguments = self.pop()?;
        let function = self.pop()?;
        let object = match (function, self.tuple_values(arguments)) {
            (Value::Global(Global::Reconstruct), [Value::Global(Global::NdArray), ..]) => Object::Array(None),
            (Value::Global(Global::DType), &[Value::Bytes(code), ..]) => Object::DType(code, None),
            (Value::Global(Global::DefaultDict), [Value::Global(Global::List)]) => Object::Dict(Vec::new()),
            _ => return Err(self.error("an array, a type or a dictionary of lists to make", format!("{function:?}"))),
        };
        self.make(object);
        Ok(())
    }

    /// NEWOBJ: a class and the tuple of its arguments.
    fn new_object(&mut self) -> Result<(), DataError> {
        let arguments = self.pop()?;
        let class = self.pop()?;
        if class != Value::Global(Global::CsrMatrix) || !self.tuple_values(arguments).is_empty() {
            return Err(self.error("an empty sparse matrix to make", format!("{class:?}")));
        }
        self.make(Object::Csr(None));
        Ok(())
    }

    /// BUILD: an object and its state.
    fn build(&mut self) -> Result<(), DataError> {
        let state = self.pop()?;
        let order = match self.tuple_values(state) {
            &[_, Value::Bytes(&[order]), ..] => Some(order),
            _ => None,
        };
        let (input, at) = (self.input, self.opcode_at);
        match self.object_on_top()? {
            Some(Object::Array(slot) | Object::Csr(slot)) => *slot = Some(state),
            Some(Object::DType(_, slot)) if order.is_some() => *slot = order,
            _ => return Err(input.byte_error(at, "an array, a type or a sparse matrix to fill", "something else")),
        }
        Ok(())
    }
}
