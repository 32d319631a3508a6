package waypost

// Touchpoint names one execution of a touchpoint node: the enrollment and its
// visit (State.Visit of the interpreter). Each has one message, whatever is
// retried, run again or redelivered.
type Touchpoint struct {
	EnrollmentID string
	Visit        int
}

// TouchpointResult is what conditions and templates can ask about a touchpoint
// that was passed.
type TouchpointResult struct {
	Succeed    bool   `json:"succeed"`
	HTTPStatus int    `json:"httpStatus"`
	Message    string `json:"message"`
	Attempts   int    `json:"attempts"`
}
