//! Merging a patch into a sheet.

use serde_json::Value;

/// `sheet` with `patch` laid over it: objects are merged key by key, everything
/// else is replaced, and `null` is a value like any other. A patch object over
/// something that is no object replaces it.
pub(super) fn merged(sheet: Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else {
        return patch.clone();
    };
    let Value::Object(mut fields) = sheet else {
        return patch.clone();
    };
    for (key, change) in changes {
        let before = fields.get_mut(key).map(Value::take);
        let after = before.map_or_else(|| change.clone(), |before| merged(before, change));
        fields.insert(key.clone(), after);
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn t_chr_01_only_what_the_patch_names_is_changed() {
        let sheet = json!({
            "hp": {"current": 9, "maximum": 12}, "skills": [1, 2], "notes": "x", "name": "Bram",
        });
        let patch = json!({"hp": {"current": 3}, "skills": [], "notes": null});
        assert_eq!(
            merged(sheet, &patch),
            json!({
                "hp": {"current": 3, "maximum": 12}, "skills": [], "notes": null, "name": "Bram",
            })
        );
        assert_eq!(
            merged(json!({"hp": 5}), &json!({"hp": {"a": 1}})),
            json!({"hp": {"a": 1}})
        );
    }

    fn arbitrary() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-c]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_patch_is_in_force_afterwards_and_takes_effect_once(sheet in arbitrary(), patch in arbitrary()) {
            let once = merged(sheet, &patch);
            prop_assert_eq!(&merged(once.clone(), &patch), &once);
        }

        #[test]
        fn an_empty_patch_changes_no_object(sheet in arbitrary()) {
            prop_assume!(sheet.is_object());
            prop_assert_eq!(merged(sheet.clone(), &json!({})), sheet);
        }
    }
}
