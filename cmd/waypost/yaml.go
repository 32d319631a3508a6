package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxYAML bounds the JSON that a YAML file becomes, aliases written out: the
// gateway takes no more than 1 MiB.
const maxYAML = 1 << 20

// yamlToJSON turns the one document of a YAML file into JSON with the names and
// the scalars as they stand in the file: `on` and `y` are names, 1.10 stays 1.10,
// and a date is text. Decoding into Go values would change all three.
func yamlToJSON(data []byte) ([]byte, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, err
		}
		return nil, errors.New("it holds several YAML documents; one is expected")
	}
	var out bytes.Buffer
	if len(doc.Content) == 0 {
		return []byte("null"), nil
	}
	err := writeYAML(&out, doc.Content[0], 0)
	return out.Bytes(), err
}

func writeYAML(out *bytes.Buffer, n *yaml.Node, depth int) error {
	if depth > 64 || out.Len() > maxYAML {
		return fmt.Errorf("line %d: nested too deep, or larger than %d bytes", n.Line, maxYAML)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return writeYAML(out, n.Alias, depth+1)
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := writeYAML(out, item, depth+1); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	case yaml.MappingNode:
		out.WriteByte('{')
		names := map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
				return fmt.Errorf("line %d: a member's name must be plain text; merge keys are not supported", key.Line)
			}
			if names[key.Value] {
				return fmt.Errorf("line %d: %q stands twice", key.Line, key.Value)
			}
			names[key.Value] = true
			if i > 0 {
				out.WriteByte(',')
			}
			writeText(out, key.Value)
			out.WriteByte(':')
			if err := writeYAML(out, n.Content[i+1], depth+1); err != nil {
				return err
			}
		}
		out.WriteByte('}')
	default:
		return writeScalar(out, n)
	}
	return nil
}

func writeScalar(out *bytes.Buffer, n *yaml.Node) error {
	switch n.ShortTag() {
	case "!!null":
		out.WriteString("null")
	case "!!bool":
		out.WriteString(strings.ToLower(n.Value))
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			out.WriteString(n.Value)
			return nil
		}
		var number any // hexadecimal and the like
		if err := n.Decode(&number); err != nil {
			return err
		}
		b, err := json.Marshal(number)
		if err != nil {
			return fmt.Errorf("line %d: %s is no number that JSON has", n.Line, n.Value)
		}
		out.Write(b)
	default:
		writeText(out, n.Value)
	}
	return nil
}

func writeText(out *bytes.Buffer, s string) {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always has a JSON form
	}
	out.Write(b)
}
