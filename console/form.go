package console

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"waypost"
)

// field is an input of a form, for the partial "field".
type field struct {
	Name, Label, Value, Hint string
	Type                     string // text if "", password, email, number, select, area, …
	Options                  []option
	Required                 bool
	Complete                 string // autocomplete
	Fault                    string // what is wrong with the value
}

type option struct{ Value, Label string }

// options are those of values whose texts are key and the value.
func options[T ~string](v *visit, key string, values []T) []option {
	out := make([]option, len(values))
	for i, value := range values {
		out[i] = option{string(value), v.t(key + string(value))}
	}
	return out
}

// faultsOf is what the gateway says of the fields of a form, by their names; general is what
// it says of none of them, and err is nil if all of that can be shown in the form.
func faultsOf(err error) (faults map[string]string, general string, rest error) {
	var asked *waypost.Error
	if !errors.As(err, &asked) {
		return nil, "", err
	}
	switch asked.Code {
	case waypost.CodeBadRequest, waypost.CodeUnprocessableEntity, waypost.CodeConflict, waypost.CodePreconditionFailed:
	default:
		return nil, "", err
	}
	faults = map[string]string{}
	for _, d := range asked.Details {
		faults[d.Target] = d.Message
	}
	if len(faults) == 0 {
		general = asked.Message
	}
	return faults, general, nil
}

// faultOf is what is wrong with a field, or with a part of it: its target is name[2] or
// name.part then.
func faultOf(faults map[string]string, name string) string {
	if fault := faults[name]; fault != "" {
		return fault
	}
	for _, target := range slices.Sorted(maps.Keys(faults)) {
		if rest, found := strings.CutPrefix(target, name); found && (rest[0] == '[' || rest[0] == '.') {
			return faults[target]
		}
	}
	return ""
}

// formFaults is faultsOf for a resource that somebody else may have changed meanwhile.
func (v *visit) formFaults(err error) (faults map[string]string, general string, rest error) {
	faults, general, rest = faultsOf(err)
	if waypost.CodeOf(err) == waypost.CodePreconditionFailed {
		general = v.t("form.changed")
	}
	return faults, general, rest
}

// formStatus is the status of a page with a form: one that was sent is shown again for what
// is wrong with it.
func (v *visit) formStatus() int {
	if v.r.Method == http.MethodPost {
		return http.StatusBadRequest
	}
	return http.StatusOK
}
