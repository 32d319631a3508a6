package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
)

// audienceInput holds the flags that choose leads.
type audienceInput struct {
	leads     string
	filters   []string
	segment   string
	everybody bool
}

func (in *audienceInput) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&in.leads, "leads", "", "a file of leadsIds, one a line or as a JSON list; - is standard input")
	f.StringArrayVar(&in.filters, "filter", nil, `the leads that match NAME=VALUE; may stand several times, and all must match:
leadsGroup, region, name (a prefix), mobilePhone, email, externalId,
gender, test, birthday (a date or --MM-DD), importId, customFields.NAME,
createdFrom, createdTo, updatedFrom, updatedTo (RFC 3339; To is exclusive)`)
	f.StringVar(&in.segment, "segment", "", "the leads of a segment")
	f.BoolVar(&in.everybody, "all", false, "every lead")
	notEmpty(cmd, "leads", "segment")
}

// audience returns the member "audience" of a request.
func (c *cli) audience(what string, in audienceInput) (map[string]any, error) {
	ways := 0
	for _, given := range []bool{in.leads != "", len(in.filters) > 0, in.segment != "", in.everybody} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return nil, usagef("%s needs one of --leads FILE, --filter NAME=VALUE, --segment SEGMENT and --all", what)
	}
	if in.leads != "" {
		list, err := c.readLeads(in.leads)
		return map[string]any{"leadsIds": list}, err
	}
	if in.segment != "" {
		return map[string]any{"segment": in.segment}, nil
	}
	filter, err := leadFilter(in.filters)
	return map[string]any{"filter": filter}, err
}

// leadFilter reads --filter. The gateway checks the names; only those of numbers are
// known here.
func leadFilter(texts []string) (map[string]any, error) {
	pairs, err := pairsOf("--filter", texts, "name=value, such as leadsGroup=3")
	if err != nil {
		return nil, err
	}
	filter := map[string]any{}
	for name, value := range pairs {
		filter[name] = value
		if name == "test" && (value == "true" || value == "false") {
			filter[name] = value == "true"
		}
		if name == "leadsGroup" || name == "region" || name == "gender" {
			if filter[name], err = strconv.ParseInt(value, 10, 64); err != nil {
				return nil, usagef("--filter %s=%s: it is no whole number", name, value)
			}
		}
	}
	return filter, nil
}

// readLeads reads leadsIds, one a line or as a JSON list.
func (c *cli) readLeads(name string) (any, error) {
	data, err := c.readInput(name)
	if err != nil {
		return nil, err
	}
	name = inputName(name)
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))
	if bytes.HasPrefix(data, []byte("[")) {
		if !json.Valid(data) {
			return nil, fmt.Errorf("%s begins like a JSON list, and is none", name)
		}
		return json.RawMessage(data), nil // the gateway checks its items
	}
	ids := []int64{}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		text := string(bytes.TrimSpace(line))
		if text == "" {
			continue
		}
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %q is no leadsId", name, n, clip(text, 40))
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s holds no leadsIds", name)
	}
	return ids, nil
}
