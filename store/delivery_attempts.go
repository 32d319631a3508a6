package store

import (
	"strconv"
	"strings"

	"github.com/uptrace/bun"

	"waypost"
	"waypost/delivery"
)

// attemptRow is an attempt. The one that a delivery's outcome columns describe
// stands in the delivery's row alone, all others in a row of their own; if an
// attempt has one, that is the record of it.
type attemptRow struct {
	bun.BaseModel `bun:"table:attempts,alias:a"`

	EnrollmentID string `bun:"enrollment_id,pk"`
	Visit        int    `bun:"visit,pk"`
	Round        int    `bun:"round,pk"`
	Attempt      int    `bun:"attempt,pk"`
	At           stamp  `bun:"at"`
	HTTPStatus   int    `bun:"http_status"`
	ErrorClass   string `bun:"error_class"`
	DurationMs   int64  `bun:"duration_ms"`
	Response     []byte `bun:"response"` // see sealResponse

	GaveUp waypost.GaveUp `bun:"gave_up"` // "" unless the delivery failed with it
}

func newAttemptRow(r delivery.AttemptRecord, response []byte) attemptRow {
	return attemptRow{
		EnrollmentID: r.EnrollmentID, Visit: r.Visit, Round: r.Round, Attempt: r.Attempt, At: stamp{r.Outcome.At}, HTTPStatus: r.Outcome.HTTPStatus,
		ErrorClass: r.Outcome.ErrorClass, DurationMs: r.Outcome.Duration.Milliseconds(),
		Response: response, GaveUp: r.GaveUp,
	}
}

func (s *deliveries) attempt(r attemptRow) waypost.Attempt {
	message, excerpt := s.showResponse(r.key().Touchpoint, r.Response)
	return waypost.Attempt{
		Attempt: r.Attempt, Round: r.Round, At: r.At.Time, HTTPStatus: r.HTTPStatus, ErrorClass: r.ErrorClass,
		Message: r.GaveUp.Explain(message), DurationMs: r.DurationMs, ResponseExcerpt: excerpt, GaveUp: r.GaveUp,
	}
}

func responsePurpose(key waypost.Touchpoint) string {
	return "response/" + key.EnrollmentID + "/" + strconv.Itoa(key.Visit)
}

// sealResponse encrypts what a receiver has said: the message of its answer and the
// beginning of the body. It may repeat what it was sent. NULL if it has said nothing.
func (s *deliveries) sealResponse(key waypost.Touchpoint, message, excerpt string) []byte {
	if message == "" && excerpt == "" {
		return nil
	}
	return s.keys.Seal([]byte(cleanText(message)+responseSeparator+cleanText(excerpt)), responsePurpose(key))
}

// responseSeparator is in no text that cleanText returns.
const responseSeparator = "\x00"

// openResponse reverses sealResponse.
func (s *deliveries) openResponse(key waypost.Touchpoint, sealed []byte) (message, excerpt string, err error) {
	if sealed == nil {
		return "", "", nil
	}
	plain, err := s.keys.Open(sealed, responsePurpose(key))
	message, excerpt, _ = strings.Cut(string(plain), responseSeparator)
	return message, excerpt, err
}

// showResponse is openResponse for people. Where that fails the message says so, and no
// more: which keys there are is nothing to clients. The rest of the delivery, and the
// others of a list, are shown all the same.
func (s *deliveries) showResponse(key waypost.Touchpoint, sealed []byte) (message, excerpt string) {
	message, excerpt, err := s.openResponse(key, sealed)
	if err != nil {
		message = "the answer cannot be read at the moment"
	}
	return message, excerpt
}

// attemptKey names an attempt.
type attemptKey struct {
	waypost.Touchpoint
	round, attempt int
}

func (r attemptRow) key() attemptKey {
	return attemptKey{waypost.Touchpoint{EnrollmentID: r.EnrollmentID, Visit: r.Visit}, r.Round, r.Attempt}
}

// last returns the attempt that the outcome columns describe, none before the
// first one was recorded.
func (r *deliveryRow) last() []attemptRow {
	if r.LastAttempt == 0 {
		return nil
	}
	return []attemptRow{{
		EnrollmentID: r.EnrollmentID, Visit: r.Visit, Round: r.LastRound, Attempt: r.LastAttempt, At: r.LastAttemptAt, HTTPStatus: r.HTTPStatus,
		ErrorClass: r.ErrorClass, DurationMs: r.DurationMs, Response: r.Response, GaveUp: r.GaveUp,
	}}
}

// setLast makes the outcome columns describe another attempt.
func (r *deliveryRow) setLast(a attemptRow) {
	r.LastRound, r.LastAttempt, r.LastAttemptAt, r.HTTPStatus = a.Round, a.Attempt, a.At, a.HTTPStatus
	r.ErrorClass, r.DurationMs, r.Response, r.GaveUp = a.ErrorClass, a.DurationMs, a.Response, a.GaveUp
}
