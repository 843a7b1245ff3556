//! WebSocket frames, as far as the relay has to read and write them (RFC 6455).

/// A frame as it stood on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawFrame {
    /// The frame's bytes, header and mask included.
    pub(super) bytes: Vec<u8>,
    pub(super) opcode: u8,
    pub(super) last: bool,
    /// The payload without its mask.
    pub(super) payload: Vec<u8>,
}

pub(super) const CONTINUATION: u8 = 0;
pub(super) const TEXT: u8 = 1;
pub(super) const BINARY: u8 = 2;
pub(super) const CLOSE: u8 = 8;

/// What the bytes at hand hold.
pub(super) enum Scan {
    /// Not a whole frame yet.
    Partial,
    /// A frame, which was taken out of the buffer.
    Frame(RawFrame),
    /// The header announces more than the limit.
    TooLong,
}

/// Takes the first whole frame out of `buffer`. A frame with a payload longer
/// than `limit` is never gathered.
pub(super) fn take(buffer: &mut Vec<u8>, limit: u64) -> Scan {
    let Some((&[first, second], _)) = buffer.split_first_chunk::<2>() else {
        return Scan::Partial;
    };
    let masked = second & 0x80 != 0;
    let (length, mut head) = match second & 0x7f {
        126 => match buffer.get(2..4) {
            Some(&[a, b]) => (u64::from(u16::from_be_bytes([a, b])), 4),
            _ => return Scan::Partial,
        },
        127 => match buffer.get(2..10).and_then(|bytes| bytes.try_into().ok()) {
            Some(bytes) => (u64::from_be_bytes(bytes), 10),
            None => return Scan::Partial,
        },
        short => (u64::from(short), 2),
    };
    if length > limit {
        return Scan::TooLong;
    }
    let mask = if masked {
        let Some(mask) = buffer.get(head..head + 4) else {
            return Scan::Partial;
        };
        head += 4;
        [mask[0], mask[1], mask[2], mask[3]]
    } else {
        [0; 4]
    };
    let Ok(length) = usize::try_from(length) else {
        return Scan::TooLong;
    };
    if buffer.len() < head + length {
        return Scan::Partial;
    }
    let bytes: Vec<u8> = buffer.drain(..head + length).collect();
    let payload = bytes[head..]
        .iter()
        .zip(mask.iter().cycle())
        .map(|(byte, mask)| byte ^ mask)
        .collect();
    Scan::Frame(RawFrame {
        bytes,
        opcode: first & 0x0f,
        last: first & 0x80 != 0,
        payload,
    })
}

/// A whole, unmasked frame, as a server sends it.
pub(super) fn server_frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80 | opcode];
    let length = payload.len();
    if let Ok(short @ 0..126) = u8::try_from(length) {
        bytes.push(short);
    } else if let Ok(medium) = u16::try_from(length) {
        bytes.push(126);
        bytes.extend(medium.to_be_bytes());
    } else {
        bytes.push(127);
        bytes.extend((length as u64).to_be_bytes());
    }
    bytes.extend(payload);
    bytes
}

/// A whole frame of a client, masked with zeros; the payload is short.
pub(super) fn client_frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = server_frame(opcode, payload);
    bytes[1] |= 0x80;
    let head = bytes.len() - payload.len();
    bytes.splice(head..head, [0; 4]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_the_round_trip_whole_or_in_pieces() {
        for length in [0_usize, 1, 125, 126, 65_535, 65_536] {
            let payload = vec![b'x'; length];
            let mut wire = server_frame(TEXT, &payload);
            let end = wire.split_off(wire.len() - 1);
            let mut buffer = wire;
            assert!(matches!(take(&mut buffer, 1 << 20), Scan::Partial));
            buffer.extend(end);
            let Scan::Frame(frame) = take(&mut buffer, 1 << 20) else {
                panic!("a whole frame of {length} bytes was not found");
            };
            assert_eq!(frame.payload, payload);
            assert!(buffer.is_empty());
        }
    }

    #[test]
    fn a_masked_payload_is_unmasked_and_its_bytes_kept() {
        let mut wire = vec![0x81, 0x82, 1, 2, 3, 4, b'4' ^ 1, b'0' ^ 2];
        let sent = wire.clone();
        let Scan::Frame(frame) = take(&mut wire, 100) else {
            panic!("no frame");
        };
        assert_eq!(frame.payload, b"40");
        assert_eq!(frame.bytes, sent);
    }

    #[test]
    fn a_frame_over_the_limit_is_seen_at_its_header() {
        let mut wire = server_frame(TEXT, &[0; 300]);
        wire.truncate(4);
        assert!(matches!(take(&mut wire, 299), Scan::TooLong));
    }
}
