//! What an `error` event means. CozyVTT's errors are a sentence and nothing else,
//! so the sentence is all there is to go by.

use cozyvtt_proto::text::start;
use serde_json::Value;

/// Longest sentence that is told, in characters.
const LONGEST: usize = 500;

/// What an error means for the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A refused request; the link is fine.
    Business,
    /// The sign-in behind the socket has ended.
    SignedOut,
    /// The campaign is closed to this account.
    LostAccess,
    /// The server no longer knows which campaign this socket is in.
    LostCampaign,
}

/// The sentences of CozyVTT 1.1.2 to 1.5 with which a sign-in ends.
const SIGNED_OUT: [&str; 6] = [
    "Unauthorized",
    "You signed out.",
    "Your password was reset. Sign in again.",
    "Your password was changed on another device. Sign in again.",
    "Two-factor authentication was turned off on another device. Sign in again.",
    "Your account was deleted.",
];

/// Those with which a campaign closes itself to an account.
const LOST_ACCESS: [&str; 4] = [
    "You are no longer a member of this campaign",
    "You are not a member of this campaign",
    "This campaign was deleted",
    "Campaign not found",
];

/// That of a socket that has not joined a campaign.
const LOST_CAMPAIGN: &str = "Not authenticated to a campaign";

pub(super) fn verdict(payload: &Value) -> Verdict {
    let text = sentence(payload);
    let is = |sentence: &&str| text.eq_ignore_ascii_case(sentence);
    if SIGNED_OUT.iter().any(is) {
        Verdict::SignedOut
    } else if closes_the_campaign(&text) {
        Verdict::LostAccess
    } else if is(&LOST_CAMPAIGN) {
        Verdict::LostCampaign
    } else {
        Verdict::Business
    }
}

/// Whether a sentence of the server closes the campaign to this account.
pub(super) fn closes_the_campaign(sentence: &str) -> bool {
    LOST_ACCESS
        .iter()
        .any(|lost| sentence.eq_ignore_ascii_case(lost))
}

/// Whether a revocation is about the sign-in rather than about the campaign. Its
/// form is not known for certain, so any word of it counts.
pub(super) fn ends_the_sign_in(revocation: &str) -> bool {
    let words = revocation.to_ascii_lowercase();
    ["signed out", "sign-out", "session ended", "unauthorized"]
        .iter()
        .any(|sign| words.contains(sign))
}

/// The sentence in the payload of an `error` event, or its beginning.
pub(super) fn sentence(payload: &Value) -> String {
    let text = payload.get("message").unwrap_or(payload).as_str();
    text.map_or_else(
        || start(&payload.to_string(), LONGEST),
        |text| start(text, LONGEST),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_revocation_tells_a_sign_out_from_a_lost_membership() {
        assert!(ends_the_sign_in(r#"{"reason":"You signed out."}"#));
        assert!(!ends_the_sign_in(
            "You are no longer a member of this campaign"
        ));
    }

    #[test]
    fn only_whole_sentences_of_the_server_end_a_link() {
        let of = |text: &str| verdict(&json!({"message": text}));
        assert_eq!(of("Unauthorized"), Verdict::SignedOut);
        assert_eq!(of("You signed out."), Verdict::SignedOut);
        assert_eq!(of("This campaign was deleted"), Verdict::LostAccess);
        assert_eq!(of("Not authenticated to a campaign"), Verdict::LostCampaign);
        assert_eq!(
            of("Invalid dice expression: unauthorized"),
            Verdict::Business
        );
        assert_eq!(verdict(&json!(5)), Verdict::Business);
    }
}
