package typesense

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/typesense/typesense-go/v3/typesense"

	"waypost"
)

// fault is why a node does not do what it is asked for, though the request is right:
// another node or the same one may do it later. The cause continues a sentence that
// begins with the node, and never holds what was asked or stored.
type fault struct {
	cause string
	// missing tells that what was asked for is not there. That is no fault of the
	// node alone, but one that lags may lack what others have.
	missing bool
}

func (f fault) Error() string { return "Typesense " + f.cause }

// errOther is an answer of the right form to something else than was asked.
var errOther = fault{cause: "gives an answer that is not Typesense's"}

// refusal is an answer that says that the request is wrong: no node takes it.
type refusal string

func (r refusal) Error() string { return string(r) }

// classify turns an error of a call into a fault, a refusal or context.Canceled. What
// Typesense says is left out as far as it may hold the request, and so is what the HTTP
// client says: its errors hold the whole URL.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var (
		answer *typesense.HTTPError
		wrong  fault
		no     refusal
	)
	switch {
	case errors.As(err, &answer):
		return statusError(answer.Status, message(answer.Body))
	case errors.As(err, &wrong):
		return wrong
	case errors.As(err, &no):
		return no
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled // nobody waits for the answer any more
	case ctx.Err() != nil:
		return fault{cause: late}
	}
	return fault{cause: failure(err)}
}

const late = "does not answer in time"

// failure tells an error that is none of Typesense's answers, if its kind is known to
// hold nothing of the request.
func failure(err error) string {
	var (
		connection  *net.OpError
		certificate *tls.CertificateVerificationError
		noJSON      *json.SyntaxError
		otherJSON   *json.UnmarshalTypeError
		timeout     net.Error
	)
	switch {
	case errors.As(err, &connection):
		return "is away: " + connection.Error()
	case errors.As(err, &certificate):
		return "is not to be trusted: " + certificate.Error()
	case errors.Is(err, http.ErrSchemeMismatch):
		return "is asked by https and speaks http"
	case errors.As(err, &timeout) && timeout.Timeout():
		return late
	case errors.As(err, &noJSON):
		return fmt.Sprintf("gives an answer that cannot be read: no JSON from byte %d on", noJSON.Offset)
	case errors.As(err, &otherJSON):
		return fmt.Sprintf("gives an answer that cannot be read: no %v in %q", otherJSON.Type, otherJSON.Field)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "is away: the connection broke"
	}
	return "gives an answer that cannot be read"
}

// statusError classifies an answer that is no success.
func statusError(status int, said string) error {
	because := reason(said)
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fault{cause: fmt.Sprintf("refuses the API key (%d)", status)}
	case status == http.StatusNotFound:
		return fault{cause: "has no such collection (404)", missing: true}
	case status < 400:
		return fault{cause: fmt.Sprintf("gives an answer that is not Typesense's (%d)", status)}
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status >= 500,
		status == http.StatusUnprocessableEntity && because != "": // it takes no writes now
		return fault{cause: fmt.Sprintf("is not ready (%d%s)", status, because)}
	}
	return refusal(fmt.Sprintf("the request is refused by Typesense (%d%s)", status, because))
}

// reasons are the beginnings of what Typesense says of itself (its replication_state
// and raft_server). Other messages may hold the request.
var reasons = []string{
	"Not Ready or Lagging", "Could not find a leader", "Shutting down",
	"Rejecting write: running out of resource type: ", "Skipping writes",
	"`filter_by` has too many operations. ",
}

// reason is what Typesense says about its own state, "" if it says something else.
func reason(said string) string {
	for _, known := range reasons {
		if strings.HasPrefix(said, known) {
			return ": " + plain(said)
		}
	}
	return ""
}

// documentError classifies a line of an import that is no success. What is said about
// fields of the collection holds no text of the document.
func documentError(status int, said string) error {
	if status < 500 && strings.HasPrefix(said, "Field `") {
		return fmt.Errorf("a document is refused by Typesense (%d: %s)", status, plain(said))
	}
	err := statusError(status, said)
	var wrong fault
	if errors.As(err, &wrong) {
		return unavailable(wrong.Error())
	}
	return err
}

// plain keeps a message short and on one line.
func plain(said string) string {
	said = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, said)
	return strings.TrimRight(said[:min(len(said), 120)], ". ")
}

// unavailable keeps the cause for logs; clients see what stands behind it.
func unavailable(cause string) error {
	return fmt.Errorf("%s: %w", cause,
		waypost.Errorf(waypost.CodeServiceUnavailable, "", "article search is away; try again in a moment"))
}

// answered returns the status of an answer that is no success and what it says, 0 if
// err is none.
func answered(err error) (status int, said string) {
	var answer *typesense.HTTPError
	if !errors.As(err, &answer) {
		return 0, ""
	}
	return answer.Status, message(answer.Body)
}

// isMissing tells whether Typesense itself says that something is not there. A page
// that something else answers with does not.
func isMissing(err error) bool {
	status, said := answered(err)
	return status == http.StatusNotFound && said != "" && said != "Not Found" // which is said of unknown paths
}

// message is what Typesense says in the body of an error, "" if nothing.
func message(body []byte) string {
	var said struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &said) != nil {
		return ""
	}
	return said.Message
}

func wrap(action string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", action, err)
}
