// Package yamljson turns the YAML that people write into JSON, which the API takes, and back.
// A journey's definition keeps its comments on the way: definition.go.
package yamljson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxYAML bounds the JSON that a YAML file becomes, aliases written out: the
// gateway takes no more than 1 MiB.
const maxYAML = 1 << 20

// ToJSON turns a YAML file of one document into JSON, with names and scalars as they
// are in the file. A number is what JSON takes for one: 1.10 stays 1.10, and 01234, +86138,
// 0x1F, 1_000, yes and 2026-12-31 are text. Decoding into Go values would change all of
// them. YAML that JSON cannot express is an error with its line.
func ToJSON(data []byte) ([]byte, error) {
	doc, err := readYAML(data)
	if err != nil {
		return nil, err
	}
	return toJSON(doc)
}

// readYAML reads a file of one document; one that holds nothing has no content.
func readYAML(data []byte) (*yaml.Node, error) {
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
	return &doc, nil
}

func toJSON(doc *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	if len(doc.Content) == 0 {
		return []byte("null"), nil
	}
	err := writeYAML(&out, doc.Content[0], 0)
	return out.Bytes(), err
}

// writeYAML writes a node as JSON. What JSON cannot hold, or what would lose a text, is an error with
// its line; so are more than 64 levels and more than maxYAML bytes, which aliases could grow to.
func writeYAML(out *bytes.Buffer, n *yaml.Node, depth int) error {
	if depth > 64 || out.Len() > maxYAML {
		return fmt.Errorf("line %d: nested too deep, or larger than %d bytes", n.Line, maxYAML)
	}
	if n.Style&yaml.TaggedStyle != 0 && (n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str") {
		return fmt.Errorf("line %d: the tag %s is not supported, only !!str", n.Line, n.Tag)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return writeYAML(out, n.Alias, depth+1)
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, item := range n.Content {
			if isEmpty(item) { // as that of - #fff
				return fmt.Errorf("line %d: an item of the list is empty; write null, or quote a text that begins with a #", item.Line)
			}
			if i > 0 {
				out.WriteByte(',')
			}
			if err := writeYAML(out, item, depth+1); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	case yaml.MappingNode:
		return writeMapping(out, n, depth)
	default:
		return writeScalar(out, n)
	}
	return nil
}

// writeMapping writes an object. Names that stand twice, merge keys and values that a comment has
// swallowed are errors.
func writeMapping(out *bytes.Buffer, n *yaml.Node, depth int) error {
	out.WriteByte('{')
	names := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" || isEmpty(key) {
			return fmt.Errorf("line %d: a member's name must be plain text; merge keys are not supported", key.Line)
		}
		if names[key.Value] {
			return fmt.Errorf("line %d: %q stands twice", key.Line, key.Value)
		}
		names[key.Value] = true
		// In {name: Smith, John} and in color: #fff a part of the value would be lost.
		if isEmpty(value) && n.Style&yaml.FlowStyle != 0 {
			return fmt.Errorf("line %d: %q has no value; write null, or quote a text with a comma or a # in it", key.Line, key.Value)
		}
		if isEmpty(value) && (isGlued(key.LineComment) || isGlued(value.LineComment)) {
			return fmt.Errorf("line %d: what follows a # is a comment, so that %q has no value; quote it", key.Line, key.Value)
		}
		if i > 0 {
			out.WriteByte(',')
		}
		writeText(out, key.Value)
		out.WriteByte(':')
		if err := writeYAML(out, value, depth+1); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

// isEmpty tells whether a scalar has no text and no quotes.
func isEmpty(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "" && n.Style == 0
}

// isGlued tells whether a comment has no blank behind its #, such as the end of
// "Order #1234": it is more likely a part of the text before it.
func isGlued(comment string) bool {
	text := strings.TrimLeft(comment, "#")
	return text != "" && text == strings.TrimLeft(text, " \t")
}

// writeScalar writes text, true, false and null as YAML reads them, and numbers as JSON
// does.
func writeScalar(out *bytes.Buffer, n *yaml.Node) error {
	if n.Style&^yaml.FlowStyle != 0 { // it is quoted, a block, or tagged as text
		writeText(out, n.Value)
		return nil
	}
	if isGlued(n.LineComment) {
		return fmt.Errorf("line %d: what follows a # is a comment; quote %q with it, or put a blank behind the #", n.Line, clip(n.Value))
	}
	tag := n.ShortTag()
	switch {
	case tag == "!!null" && (n.Value == "" || n.Value == "~" || n.Value == "null"):
		out.WriteString("null")
	case tag == "!!null":
		return fmt.Errorf("line %d: write null, or \"%s\" for the text", n.Line, n.Value)
	case tag == "!!bool":
		out.WriteString(strings.ToLower(n.Value))
	case tag == "!!float" && strings.HasSuffix(strings.ToLower(n.Value), "inf"), tag == "!!float" && strings.EqualFold(n.Value, ".nan"):
		return fmt.Errorf("line %d: %s is no number that JSON has; quote it for the text", n.Line, n.Value)
	case isJSONNumber(n.Value):
		out.WriteString(n.Value)
	default:
		writeText(out, n.Value)
	}
	return nil
}

// isJSONNumber tells whether text is a number as JSON writes it.
func isJSONNumber(text string) bool {
	return strings.Trim(text, "0123456789+-.eE") == "" && json.Valid([]byte(text))
}

func writeText(out *bytes.Buffer, s string) {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always has a JSON form
	}
	out.Write(b)
}

// clip shortens a text of an error.
func clip(s string) string {
	const most = 40 // bytes
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// nodesOf is JSON as YAML: a member a line, in their order, but firstMembers before the others.
func nodesOf(data []byte) (*yaml.Node, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return readJSON(dec)
}

// readJSON reads one value.
func readJSON(dec *json.Decoder) (*yaml.Node, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		if v == '{' {
			n.Kind = yaml.MappingNode
		}
		for dec.More() { // a member's name is a text, as a value is
			item, err := readJSON(dec)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, item)
		}
		_, err := dec.Token() // its end
		if v == '{' {
			n.Content = arranged(n.Content)
		}
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle
		}
		return n, err
	case string:
		return textNode(v), nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(v)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: "null"}, nil
}

// arranged puts firstMembers before the others.
func arranged(members []*yaml.Node) []*yaml.Node {
	var head, rest []*yaml.Node
	for _, name := range firstMembers {
		for i := 0; i+1 < len(members); i += 2 {
			if members[i].Value == name {
				head = append(head, members[i], members[i+1])
			}
		}
	}
	for i := 0; i+1 < len(members); i += 2 {
		if !slices.Contains(firstMembers, members[i].Value) {
			rest = append(rest, members[i], members[i+1])
		}
	}
	return append(head, rest...)
}

// textNode is a text, without quotes where it is one without them too, and as a block if it
// has several lines.
func textNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: s}
	plain := &yaml.Node{}
	switch {
	case strings.Contains(s, "\n") && blockable(s):
		n.Style = yaml.LiteralStyle
	case yaml.Unmarshal([]byte(s), plain) == nil && isPlain(plain, s):
	default:
		n.Style, n.Tag = yaml.DoubleQuotedStyle, "!!str"
	}
	return n
}

// isPlain tells whether a text, read as YAML, is itself.
func isPlain(doc *yaml.Node, s string) bool {
	if len(doc.Content) != 1 || strings.ContainsAny(s, "\n#:,[]{}&*!|>'\"%@`\t\r") {
		return false
	}
	n := doc.Content[0]
	return n.Kind == yaml.ScalarNode && n.Style == 0 && n.Value == s && n.ShortTag() == "!!str" && !strings.HasPrefix(s, "-") && !strings.HasPrefix(s, "?")
}

// blockable tells whether a block has every character of a text as it is.
func blockable(s string) bool {
	odd := strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' && r != '\n' || r == utf8.RuneError || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff
	})
	return !odd && !strings.HasPrefix(s, " ") && !strings.HasPrefix(s, "\n") && !strings.Contains(s, " \n") && !strings.HasSuffix(s, "\n\n") && !strings.HasSuffix(s, " ")
}
