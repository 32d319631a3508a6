package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// pairs are the inputs of an object whose members people name, for the partial "pairs".
type pairs struct {
	Name, Label, Hint, Fault string
	Kinds                    []option
	Rows                     []pair
}

type pair struct{ Name, Kind, Value, Fault string }

// spareRows are empty rows for further members; more are added by pairs.js.
const spareRows = 1

// newPairs are the rows of an object, by name.
func newPairs(name string, object map[string]any) pairs {
	p := pairs{Name: name}
	for _, member := range slices.Sorted(maps.Keys(object)) {
		row := pair{Name: member, Kind: "text", Value: fmt.Sprint(object[member])}
		switch value := object[member].(type) {
		case float64:
			row.Kind, row.Value = "number", strconv.FormatFloat(value, 'f', -1, 64)
		case json.Number:
			row.Kind = "number"
		case bool:
			row.Kind = "boolean"
		}
		p.Rows = append(p.Rows, row)
	}
	return p
}

// withSpare adds the empty rows.
func (p pairs) withSpare() pairs {
	for range spareRows {
		p.Rows = append(p.Rows, pair{Kind: "text"})
	}
	return p
}

// pairsOf reads the rows that a form has sent.
func pairsOf(name string, form url.Values) pairs {
	p := pairs{Name: name}
	names, kinds, values := form[name+".name"], form[name+".kind"], form[name+".value"]
	for i := range min(len(names), len(kinds), len(values)) {
		if strings.TrimSpace(names[i]) != "" || values[i] != "" {
			p.Rows = append(p.Rows, pair{Name: strings.TrimSpace(names[i]), Kind: kinds[i], Value: values[i]})
		}
	}
	return p
}

// object is what the rows say. A number that is none is sent as the text that it is: the
// gateway knows which texts a member takes.
func (p pairs) object() map[string]any {
	object := map[string]any{}
	for _, row := range p.Rows {
		object[row.Name] = row.Value
		switch value := strings.TrimSpace(row.Value); row.Kind {
		case "number":
			if json.Valid([]byte(value)) {
				object[row.Name] = json.Number(value)
			}
		case "boolean":
			object[row.Name] = value == "true"
		}
	}
	return object
}

// mark notes what the gateway says of members.
func (p pairs) mark(faults map[string]string) pairs {
	p.Fault = faults[p.Name]
	for i := range p.Rows {
		p.Rows[i].Fault = faults[p.Name+"."+p.Rows[i].Name]
	}
	return p
}

// merging is the object as a member of a merge: those of before that are gone are null.
func merging(object, before map[string]any) map[string]any {
	for name := range before {
		if _, still := object[name]; !still {
			object[name] = nil
		}
	}
	return object
}
