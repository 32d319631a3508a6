package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// readInput reads a file, or standard input for "-".
func (c *cli) readInput(name string) ([]byte, error) {
	if name == "-" {
		data, err := io.ReadAll(c.stdin)
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return data, nil
	}
	data, err := os.ReadFile(name)
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return nil, fmt.Errorf("read %s: %w", name, p.Err)
	}
	return data, err
}

// readObject reads a file that holds one object, in YAML or JSON, as JSON. JSON
// goes to the gateway as it stands, so that the gateway sees every mistake.
func (c *cli) readObject(name string) (json.RawMessage, error) {
	data, err := c.readInput(name)
	if err != nil {
		return nil, err
	}
	if name == "-" {
		name = "standard input"
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if trimmed := bytes.TrimSpace(data); bytes.HasPrefix(trimmed, []byte("{")) && json.Valid(trimmed) {
		return trimmed, nil
	}
	out, err := yamlToJSON(data)
	if err != nil {
		return nil, fmt.Errorf("%s is neither YAML nor JSON: %w", name, err)
	}
	if !bytes.HasPrefix(out, []byte("{")) {
		return nil, fmt.Errorf("%s must hold an object: members like `name: value`", name)
	}
	return out, nil
}

// params reads name=text and name:=JSON of the flag --param.
func params(pairs []string) (map[string]any, error) { return named("--param", pairs) }

// named reads name=text and name:=JSON of a flag.
func named(flag string, pairs []string) (map[string]any, error) {
	out := map[string]any{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" || name == ":" {
			return nil, usagef("%s %q: it is name=text or name:=JSON", flag, pair)
		}
		if name, isJSON := strings.CutSuffix(name, ":"); isJSON {
			if !json.Valid([]byte(value)) {
				return nil, usagef("%s %q: what follows := must be JSON, such as 7 or \"text\"", flag, pair)
			}
			out[name] = json.RawMessage(value)
			continue
		}
		out[name] = value
	}
	return out, nil
}
