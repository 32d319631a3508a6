package nodes

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// openAPI is gateway/openapi.yaml with the nodes of drafts, those of definitions, and the types of a dry run.
func openAPI(t *testing.T, old string) string {
	t.Helper()
	var refs, schemas yaml
	for _, kind := range All {
		refs.line(14, "- {$ref: %q}", schemaPath+kind.Schema)
		schemas.schema(kind)
	}
	var enum yaml
	enum.line(14, "type: {type: string, enum: [%s]}", strings.Join(Names(func(*Type) bool { return true }), ", "))
	for part, made := range map[string]string{
		"the types of a draft": string(enum), "the members of a draft": draft(), "the types of a definition": string(refs),
		"the schemas": string(schemas), "the types of a dry run": string(enum),
	} {
		old = between(t, old, "# go generate ./journey/nodes writes "+part, "# to here", made)
	}
	return old
}

const schemaPath = "#/components/schemas/"

// yaml is a text of YAML under way.
type yaml string

// line adds a line with so many spaces before it.
func (y *yaml) line(indent int, format string, args ...any) {
	*y += yaml(strings.Repeat(" ", indent) + fmt.Sprintf(format, args...) + "\n")
}

// text adds a member that is a text, which may have several lines.
func (y *yaml) text(indent int, name, text string) {
	lines := strings.Split(text, "\n")
	if len(lines) == 1 {
		if strings.Contains(text, ": ") || strings.Contains(text, " #") || strings.HasPrefix(text, "`") {
			text = strconv.Quote(text)
		}
		y.line(indent, "%s: %s", name, text)
		return
	}
	y.line(indent, "%s: |", name)
	for _, line := range lines {
		y.line(indent+2, "%s", line)
	}
}

// scalar quotes a text where YAML asks for it between braces.
func scalar(text string) string {
	if strings.ContainsAny(text, "{}[],:#\"") || strings.HasPrefix(text, "`") {
		return strconv.Quote(text)
	}
	return text
}

// schema adds the schema of a type.
func (y *yaml) schema(kind *Type) {
	y.line(4, "%s:", kind.Schema)
	y.line(6, "type: object")
	if kind.About != "" {
		y.text(6, "description", kind.About)
	}
	y.line(6, "additionalProperties: false")
	y.line(6, "required: [%s]", strings.Join(append([]string{"id", "type"}, required(kind.Members)...), ", "))
	if kind.Rules != "" {
		y.line(6, "%s", kind.Rules)
	}
	y.line(6, "properties:")
	y.line(8, "id: {$ref: %q}", schemaPath+"NodeId")
	y.line(8, "type: {const: %s}", kind.Name)
	for _, name := range []string{"label", "note", "comments"} {
		y.line(8, "%s: {$ref: %q}", name, schemaPath+strings.ToUpper(name[:1])+name[1:])
	}
	for _, m := range kind.Members {
		y.property(8, m)
	}
}

func required(members []Member) (names []string) {
	for _, m := range members {
		if m.Required {
			names = append(names, m.Name)
		}
	}
	return names
}

// property adds a member of a definition: on one line if there is room for it.
func (y *yaml) property(indent int, m Member) {
	parts := property(m)
	if m.About != "" && !strings.Contains(m.About, "\n") {
		parts = append(parts, "description: "+scalar(m.About))
	}
	line := m.Name + ": {" + strings.Join(parts, ", ") + "}"
	if len(m.Of) == 0 && !strings.Contains(m.About, "\n") && indent+utf8.RuneCountInString(line) <= 140 {
		y.line(indent, "%s", line)
		return
	}
	y.line(indent, "%s:", m.Name)
	for _, part := range property(m) {
		y.line(indent+2, "%s", part)
	}
	if m.About != "" {
		y.text(indent+2, "description", m.About)
	}
	if m.Kind == List {
		y.line(indent+2, "items:")
		y.object(indent+4, m, true)
	} else if m.Kind == Object {
		y.object(indent+2, m, false)
	}
}

// object adds what there is to say of an object of a member's.
func (y *yaml) object(indent int, m Member, comments bool) {
	if m.Kind == List {
		y.line(indent, "type: object")
	}
	y.line(indent, "additionalProperties: false")
	if names := required(m.Of); len(names) > 0 {
		y.line(indent, "required: [%s]", strings.Join(names, ", "))
	}
	if m.Rules != "" {
		y.line(indent, "%s", m.Rules)
	}
	y.line(indent, "properties:")
	for _, inner := range m.Of {
		y.property(indent+2, inner)
	}
	if comments {
		y.line(indent+2, "comments: {$ref: %q}", schemaPath+"Comments")
	}
}

// property is what there is to say of a member of a definition, but for its description and what is in it.
func property(m Member) []string {
	refs := map[Kind]string{
		Way: "NodeId", Duration: "Duration", Event: "EventName", Condition: "Condition", Clock: "ClockTime", Zone: "Timezone",
	}
	if to, ok := refs[m.Kind]; ok {
		ref := fmt.Sprintf("$ref: %q", schemaPath+to)
		if m.About != "" {
			ref = "allOf: [{" + ref + "}]"
		}
		return []string{ref}
	}
	of := func(kind, least, most string) []string {
		parts := []string{"type: " + kind}
		if m.Min > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", least, m.Min))
		}
		if m.Max > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", most, m.Max))
		}
		return parts
	}
	switch m.Kind {
	case Webhook:
		return []string{"type: string"}
	case Journey:
		return []string{"type: string", "pattern: ^jrn_"}
	case Number:
		return of("integer", "minimum", "maximum")
	case Choices:
		return append(of("array", "minItems", "maxItems"), "uniqueItems: true", "items: {type: string, enum: ["+strings.Join(m.Values, ", ")+"]}")
	case Templates:
		parts := of("object", "minProperties", "maxProperties")
		if len(m.Holds) > 0 {
			holds := strings.ReplaceAll(strings.Join(m.Holds, "}, {type: "), "null", `"null"`)
			parts = append(parts, "additionalProperties: {oneOf: [{type: "+holds+"}]}") // generators of clients take no list of types
		}
		return parts
	case List:
		return of("array", "minItems", "maxItems")
	case Object:
		return []string{"type: object"}
	}
	if len(m.Values) == 1 {
		return []string{"const: " + m.Values[0]}
	}
	parts := []string{"type: string"}
	if len(m.Values) > 0 {
		parts = append(parts, "enum: ["+strings.Join(m.Values, ", ")+"]")
	}
	if m.Pattern != "" {
		parts = append(parts, "pattern: "+strconv.Quote(m.Pattern))
	}
	return parts
}

// draft are the members that nodes of a draft may have: those of all types.
func draft() string {
	var y yaml
	var seen []string
	for _, kind := range All {
		for _, m := range kind.Members {
			if slices.Contains(seen, m.Name) {
				continue
			}
			seen = append(seen, m.Name)
			which, says := typesWith(m.Name)
			y.drafted(14, m, strings.Join(nonEmpty(which, says), ": "))
		}
	}
	return string(y)
}

// typesWith says which types have a member, and what a draft says of it.
func typesWith(member string) (which, says string) {
	has := func(t *Type) bool { return t.Member(member).Name != "" }
	for _, t := range All {
		if says == "" {
			says = t.Member(member).Draft
		}
	}
	with, without := Names(has), Names(func(t *Type) bool { return !has(t) })
	if last := len(without) - 1; len(with) > len(without) && last > 0 {
		return "all types but " + strings.Join(without[:last], ", ") + " and " + without[last], says
	}
	return strings.Join(with, ", "), says
}

// drafted adds a member of a draft, which may be null.
func (y *yaml) drafted(indent int, m Member, about string) {
	kind := "string"
	switch m.Kind {
	case Number:
		kind = "integer"
	case Choices, List:
		kind = "array"
	case Templates, Object:
		kind = "object"
	}
	parts := []string{"type: [" + kind + `, "null"]`}
	if about != "" {
		parts = append(parts, "description: "+scalar(about))
	}
	if m.Kind == Choices {
		parts = append(parts, "items: {type: string}")
	}
	if len(m.Of) == 0 {
		y.line(indent, "%s: {%s}", m.Name, strings.Join(parts, ", "))
		return
	}
	y.line(indent, "%s:", m.Name)
	for _, part := range parts {
		y.line(indent+2, "%s", part)
	}
	indent += 2
	if m.Kind == List {
		y.line(indent, "items:")
		indent += 2
		y.line(indent, "type: object")
	}
	y.line(indent, "additionalProperties: false")
	y.line(indent, "properties:")
	for _, inner := range m.Of {
		says := inner.About
		switch inner.Kind {
		case Condition:
			says = "A CEL condition."
		case Duration:
			says = "A duration."
		}
		y.drafted(indent+2, inner, says)
	}
	if m.Kind == List {
		y.line(indent+2, "comments: {type: [object, \"null\"], description: As `Comments`.}")
	}
}
