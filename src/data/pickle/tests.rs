use std::path::Path;

use super::*;
use crate::data::{DataError, input::Input};

fn run(bytes: &[u8]) -> Result<Pickle<'_>, DataError> {
    unpickle(&Input { path: Path::new("t"), bytes })
}

fn error(bytes: &[u8]) -> String {
    run(bytes).err().map(|e| e.to_string()).unwrap_or_default()
}

#[test]
fn a_dictionary_of_lists() {
    let bytes = [
        &b"\x80\x02ccollections\ndefaultdict\nq\x01c__builtin__\nlist\n\x85Rq\x02"[..],
        b"(K\x07]q\x03(K\x01M\x00\x01eK\x08]J\xff\xff\xff\xffau.",
    ]
    .concat();
    let p = run(&bytes).ok().unwrap();
    let Some(Object::Dict(entries)) = p.object(p.result) else { panic!("a dictionary") };
    let lists: Vec<_> = entries.iter().map(|&(key, list)| (key, p.object(list))).collect();
    assert!(matches!(lists[0], (Value::Int(7), Some(Object::List(l))) if l[..] == [Value::Int(1), Value::Int(256)]));
    assert!(matches!(lists[1], (Value::Int(8), Some(Object::List(l))) if l[..] == [Value::Int(-1)]));
}

#[test]
fn anything_else_is_refused_by_name_and_place() {
    assert!(error(b"\x80\x02cos\nsystem\nU\x02ls\x85R.").contains("byte 2: expected a class"));
    assert!(error(b"\x80\x02cos\nsystem\n.").contains("`os system`"));
    assert!(
        error(b"\x80\x02Nl.")
            .contains("byte 3: expected an opcode of a Planetoid pickle (protocol 2), found 0x6c (`l`)")
    );
    assert!(error(b"\x80\x04.").contains("protocol 4"));
    assert!(error(b"cnumpy\nndarray\n)R.").contains("NdArray"));
    assert!(error(b"cnumpy\nndarray\n)\x81.").contains("sparse matrix"));
    for bytes in [
        &b"."[..],
        b"(.",
        b"N(.",
        b"\x85.",
        b"N(\x85.",
        b"e.",
        b"Na.",
        b"]a.",
        b"}(Nu.",
        b"](NNu.",
        b"NNb.",
        b"h\x01.",
        b"q\x01.",
    ] {
        assert!(matches!(run(bytes), Err(DataError::Byte { .. })), "{bytes:?}");
    }
}

#[test]
fn lengths_reach_no_further_than_the_file() {
    for bytes in [&b"T\xff\xff\xff\x7fabc"[..], b"U\xffabc", b"cnumpy", b"cnumpy\nndarray", b"J\x01", b"\x80", b""] {
        assert!(matches!(run(bytes), Err(DataError::Truncated { .. })), "{bytes:?}");
    }
    assert!(error(b"T\xff\xff\xff\xffabc").contains("not negative"));
}

#[test]
fn nesting_costs_no_stack() {
    let mut bytes = vec![b']'; 200_000];
    bytes.extend(vec![b'a'; 199_999]);
    bytes.push(b'.');
    assert!(run(&bytes).is_ok());
    let itself = b"]q\x01h\x01a.";
    assert!(run(itself).is_ok());
}
