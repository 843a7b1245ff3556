//! What a real server shows a client out for, where the engine here would let
//! it pass, or the other way about (observed on CozyVTT 1.1.2).

use serde_json::Value;

/// Names of events that Socket.IO keeps for itself.
const RESERVED: [&str; 6] = [
    "connect",
    "connect_error",
    "disconnect",
    "disconnecting",
    "newListener",
    "removeListener",
];

/// What becomes of a frame of the client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It goes on to the server.
    Pass,
    /// It is dropped, and nothing comes of it.
    Ignore,
    /// The connection is closed.
    ShowOut,
}

/// Follows what one client sends.
#[derive(Debug)]
pub(super) struct Manners {
    /// Whether the client has asked to be connected.
    connected: bool,
}

impl Manners {
    /// A client that begins here, or one that was `connected` by polling.
    pub(super) fn new(connected: bool) -> Self {
        Self { connected }
    }

    /// Judges a text message.
    pub(super) fn judge(&mut self, text: &str) -> Verdict {
        match text.as_bytes().first() {
            // Pongs, and what belongs to an upgrade.
            Some(b'3' | b'5' | b'6') => Verdict::Pass,
            _ if text == "2probe" => Verdict::Pass,
            // The real server goes on when it is told to close the transport.
            Some(b'1') => Verdict::Ignore,
            Some(b'4') => self.judge_packet(&text[1..]),
            _ => Verdict::ShowOut,
        }
    }

    fn judge_packet(&mut self, packet: &str) -> Verdict {
        match packet.as_bytes().first() {
            // Another namespace is the engine's business to refuse.
            Some(b'0') if packet.starts_with("0/") => Verdict::Pass,
            Some(b'0') if self.connected => Verdict::ShowOut,
            Some(b'0') => {
                self.connected = true;
                Verdict::Pass
            }
            Some(b'1') => Verdict::Pass,
            Some(b'2') if self.connected => judge_event(&packet[1..]),
            _ => Verdict::ShowOut,
        }
    }
}

fn judge_event(event: &str) -> Verdict {
    let list = event.trim_start_matches(|c: char| c.is_ascii_digit());
    match serde_json::from_str(list) {
        Ok(Value::Array(parts)) => match parts.first() {
            Some(Value::String(name)) if RESERVED.contains(&name.as_str()) => Verdict::ShowOut,
            Some(Value::String(_)) => Verdict::Pass,
            // A number may be a name; nobody listens to it.
            Some(Value::Number(_)) => Verdict::Ignore,
            _ => Verdict::ShowOut,
        },
        _ => Verdict::ShowOut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(frames: &[&str]) -> Verdict {
        let mut manners = Manners::new(false);
        let mut verdict = Verdict::Pass;
        for frame in frames {
            verdict = manners.judge(frame);
        }
        verdict
    }

    #[test]
    fn odd_frames_are_judged_as_a_real_server_did() {
        for (frame, verdict) in [
            ("hello", Verdict::ShowOut),
            ("9", Verdict::ShowOut),
            (r#"42{"oops""#, Verdict::ShowOut),
            ("42[5]", Verdict::Ignore),
            (r#"42["connect"]"#, Verdict::ShowOut),
            (r#"42["disconnect"]"#, Verdict::ShowOut),
            ("42{}", Verdict::ShowOut),
            ("2", Verdict::ShowOut),
            ("40", Verdict::ShowOut),
            ("1", Verdict::Ignore),
            ("3", Verdict::Pass),
            ("41", Verdict::Pass),
            (r#"42["ping"]"#, Verdict::Pass),
            (r#"4217["ping"]"#, Verdict::Pass),
        ] {
            assert_eq!(judge(&["40", frame]), verdict, "{frame}");
        }
        assert_eq!(judge(&[r#"42["ping"]"#]), Verdict::ShowOut);
        assert_eq!(judge(&["40/admin,"]), Verdict::Pass);
    }
}
