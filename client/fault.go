package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"waypost"
)

// Fault reads the body of an error answer, of /v1 or of article search, whose code is
// the HTTP status and whose status is the code: a *waypost.Error, or an error that
// names the status if the body is none of a gateway.
func Fault(status int, body []byte) error {
	var e struct {
		Code, Status any
		Message      string
		Target       string
		Detail       []waypost.Detail
	}
	err := json.Unmarshal(body, &e)
	code, _ := e.Code.(string)
	if _, isNumber := e.Code.(float64); isNumber {
		code, _ = e.Status.(string)
	}
	if err != nil || code == "" {
		return fmt.Errorf("HTTP %d %s", status, http.StatusText(status))
	}
	return &waypost.Error{Code: waypost.ErrorCode(code), Message: e.Message, Target: e.Target, Details: e.Detail}
}

// cause is an error of net/http without the URL.
func cause(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}
