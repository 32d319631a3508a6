package waypost_test

import (
	"errors"
	"fmt"
	"testing"

	"waypost"
)

func TestCodeOf(t *testing.T) {
	t.Parallel()
	notFound := waypost.Errorf(waypost.CodeNotFound, "id", "there is no %s", "lead")
	for _, tc := range []struct {
		err  error
		want waypost.ErrorCode
	}{
		{nil, ""},
		{notFound, waypost.CodeNotFound},
		{fmt.Errorf("load lead: %w", notFound), waypost.CodeNotFound},
		{errors.Join(errors.New("x"), notFound), waypost.CodeNotFound},
		{errors.New("x"), waypost.CodeInternalError},
	} {
		if got := waypost.CodeOf(tc.err); got != tc.want {
			t.Errorf("%v: %s, want %s", tc.err, got, tc.want)
		}
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	var p waypost.Problems
	if err := p.Err("lead"); err != nil {
		t.Fatalf("no problem is an error: %v", err)
	}
	p.Add(waypost.DetailNullValue, "name", "is %s", "missing")
	for _, want := range []string{"name: is missing", "2 fields are faulty; see detail (name: is missing; email: is odd)"} {
		err := p.Err("lead")
		var e *waypost.Error
		if !errors.As(err, &e) || e.Code != waypost.CodeBadRequest || e.Target != "lead" || len(e.Details) != len(p) || err.Error() != want {
			t.Errorf("%#v: %v, want %q", e, err, want)
		}
		p.Add(waypost.DetailInvalidFormat, "email", "is odd")
	}
	whole := waypost.Problems{{Code: waypost.DetailInvalidType, Message: "must be an object"}}
	if got := whole.Err("").Error(); got != "must be an object" {
		t.Errorf("a problem without target: %q", got)
	}
	for range 200 {
		p.Add(waypost.DetailInvalidFormat, "x", "is odd")
	}
	if len(p) != 100 {
		t.Errorf("%d problems are kept", len(p))
	}
}
