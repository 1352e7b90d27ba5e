//! The routes of the API, as the template names them.

/// What a route is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Takes alerts, or an operator's request to guard.
    TakeFromSender,
    /// Starts a rewind for an operator.
    AskRewind,
    /// Shows an operator how far a recovery is.
    ShowRecovery,
    /// Starts a rewind for a person.
    AskRewindInPerson,
    /// Shows a person how far a recovery is.
    ShowRecoveryToPerson,
    /// Shows a person whom the API sees.
    ShowMe,
}

/// Every route, by the key that API Gateway gives it. Those under v1 have a JWT authorizer, and a function of their own.
pub const ROUTES: [(&str, Route); 6] = [
    ("POST /webhooks/{sender}", Route::TakeFromSender),
    ("POST /rewinds", Route::AskRewind),
    ("GET /recoveries/{id}", Route::ShowRecovery),
    ("POST /v1/rewinds", Route::AskRewindInPerson),
    ("GET /v1/recoveries/{id}", Route::ShowRecoveryToPerson),
    ("GET /v1/me", Route::ShowMe),
];

impl Route {
    /// The route of this key.
    #[must_use]
    pub fn of(key: &str) -> Option<Self> {
        let route = ROUTES.iter().find(|(known, _)| *known == key);
        route.map(|(_, route)| *route)
    }
}
