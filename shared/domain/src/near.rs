//! The known name that somebody may have meant who wrote another one.

/// The known name that is nearest to `written`, unless none is near: half of a word changed is another word.
#[must_use]
pub fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // Letters of another case alone are no difference at all.
    let folded = written.to_lowercase();
    known
        .into_iter()
        .map(|name| {
            (
                strsim::damerau_levenshtein(&folded, &name.to_lowercase()),
                name,
            )
        })
        .min()
        .filter(|(distance, name)| *distance * 2 <= name.chars().count())
        .map(|(_, name)| name)
}

/// `did you mean ...?` for a near miss, else all that would be right, after `otherwise`.
#[must_use]
pub fn instead<'k>(wrong: &str, known: impl Iterator<Item = &'k str>, otherwise: &str) -> String {
    let known: Vec<&str> = known.collect();
    match nearest(wrong, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "there is none to name".to_owned(),
        None => {
            let known: Vec<_> = known.iter().map(|key| format!("`{key}`")).collect();
            format!("{otherwise} one of {}", known.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_differs_in_case_or_in_a_few_letters_is_near() {
        let known = ["OrderService", "billing"];
        assert_eq!(nearest("orderservice", known), Some("OrderService"));
        assert_eq!(nearest("order-service", known), Some("OrderService"));
        assert_eq!(nearest("biling", known), Some("billing"));
        assert_eq!(nearest("shipment-sync", known), None);
        assert_eq!(nearest("x", []), None);
    }
}
