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

	"waypost/searchsvc"
)

// fault is the reason why a node does not carry out a request that is right: another node,
// or the same one later, may. The cause continues a sentence that begins with the node's
// name, and never holds anything of a request or of a document.
type fault struct {
	cause string
	// missing: the collection is not there. A node that lags may lack a collection that
	// other nodes have.
	missing bool
}

func (f fault) Error() string { return "Typesense " + f.cause }

// errOther is an answer of the right form to another request.
var errOther = fault{cause: "gives an answer that is not Typesense's"}

// refusal is an answer that says that the request is wrong: no node takes it.
type refusal string

func (r refusal) Error() string { return string(r) }

// classify turns an error of a call into a fault, a refusal or context.Canceled. Messages of
// Typesense that may hold the request are left out, and so are the HTTP client's, which hold
// the whole URL.
func classify(ctx context.Context, err error) error {
	var answer *typesense.HTTPError
	switch {
	case err == nil, errors.As(err, new(fault)), errors.As(err, new(refusal)):
		return err
	case errors.As(err, &answer):
		return statusError(answer.Status, message(answer.Body))
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled // nobody waits for the answer any more
	case ctx.Err() != nil:
		return fault{cause: late}
	}
	return fault{cause: failure(err)}
}

const late = "does not answer in time"

// failure describes an error of the network or of decoding. Only texts that hold nothing of
// the request are repeated.
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

// reasons are the beginnings of messages about Typesense's own state (its
// replication_state and raft_server). Other messages may hold the request.
var reasons = []string{
	"Not Ready or Lagging", "Could not find a leader", "Shutting down",
	"Rejecting write: running out of resource type: ", "Skipping writes",
	"`filter_by` has too many operations. ",
}

// reason is a message about Typesense's own state, "" for any other message.
func reason(said string) string {
	for _, known := range reasons {
		if strings.HasPrefix(said, known) {
			return ": " + plain(said)
		}
	}
	return ""
}

// documentError classifies a line of an import that is no success. Messages about fields
// of the collection hold no text of the document.
func documentError(status int, said string) error {
	if status < 500 && strings.HasPrefix(said, "Field `") {
		return fmt.Errorf("a document is refused by Typesense (%d: %s)", status, plain(said))
	}
	err := statusError(status, said)
	if errors.As(err, new(fault)) {
		return searchsvc.Unavailable(err)
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

// answered returns the status and the message of an answer that is no success; the status
// is 0 if err is no such answer.
func answered(err error) (status int, said string) {
	var answer *typesense.HTTPError
	if !errors.As(err, &answer) {
		return 0, ""
	}
	return answer.Status, message(answer.Body)
}

// isMissing tells whether Typesense itself answers that something is not there, not a proxy
// before it.
func isMissing(err error) bool {
	status, said := answered(err)
	return status == http.StatusNotFound && said != "" && said != "Not Found" // which is said of unknown paths
}

// message is the message in the body of an error, "" if there is none.
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
