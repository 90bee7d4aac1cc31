//! Bytes in JSON: `data` where they are text, `data_base64` where they are not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::wire::rpc::Fault;

/// The bytes of a request's `data` or `data_base64`; none of them is an error, both of them as well.
pub fn read(method: &str, data: Option<String>, data_base64: Option<String>) -> Result<Vec<u8>, Fault> {
    match (data, data_base64) {
        (Some(text), None) => Ok(text.into_bytes()),
        (None, Some(text)) => decode(&text)
            .ok_or_else(|| Fault::invalid_params(format!("{method}: data_base64: this is not base64"))),
        (None, None) => {
            Err(Fault::invalid_params(format!("{method}: parameter data or data_base64 is missing")))
        }
        (Some(_), Some(_)) => {
            Err(Fault::invalid_params(format!("{method}: give either data or data_base64, not both")))
        }
    }
}

/// Bytes from base64 with or without padding at the end; `None` where it is none.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    LENIENT.decode(text).ok()
}

/// Bytes as base64.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Adds bytes to a JSON object: as `data` if they are UTF-8, else as `data_base64`.
pub fn write(object: &mut Map<String, Value>, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert("data".to_owned(), text.into()),
        Err(_) => object.insert("data_base64".to_owned(), base64(bytes).into()),
    };
}

/// The bytes that [`write()`] put into an object; `None` where there are none.
pub fn find(object: &Map<String, Value>) -> Option<Vec<u8>> {
    match (object.get("data"), object.get("data_base64")) {
        (Some(Value::String(text)), _) => Some(text.clone().into_bytes()),
        (_, Some(Value::String(text))) => decode(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut object = Map::new();
            write(&mut object, &bytes);
            prop_assert_eq!(find(&object), Some(bytes.clone()));
            prop_assert_eq!(decode(&base64(&bytes)), Some(bytes));
        }
    }

    #[test]
    fn one_of_both_is_needed() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(read("m", some("é"), None).unwrap(), "é".as_bytes());
        assert_eq!(read("m", None, some("/wA")).unwrap(), [0xff, 0]);
        for (data, base64) in [(None, None), (some("a"), some("YQ==")), (None, some("?"))] {
            assert!(read("m", data, base64).is_err());
        }
    }
}
