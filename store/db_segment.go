package store

import (
	"context"

	"github.com/uptrace/bun"

	"waypost/segment"
)

// withMemory gives PostgreSQL room, until the transaction ends, for the leads that events
// are counted by: with its 4 MB it would write a million of them to files, more than once.
func (s *db) withMemory(ctx context.Context, tx bun.Tx) error {
	if !s.postgres {
		return nil
	}
	_, err := tx.ExecContext(ctx, "SET LOCAL work_mem = '64MB'; SET LOCAL jit = off")
	return err
}

// compareText compares a text, which may be NULL, as conditions do: by its bytes.
func (s *db) compareText(column string, op segment.Op, value string) condition {
	switch op {
	case segment.StartsWith, segment.NotStartsWith:
		return negated(op == segment.NotStartsWith, s.in(dialects{"starts_with(" + column + ", ?)", "substr(" + column + ", 1, length(?)) = ?"}), s.twice(value))
	case segment.EndsWith, segment.NotEndsWith:
		return negated(op == segment.NotEndsWith, s.in(dialects{"right(" + column + ", length(?)) = ?", "substr(" + column + ", -length(?)) = ?"}), []any{value, value})
	case segment.Contains, segment.NotContains:
		return negated(op == segment.NotContains, s.in(dialects{"strpos(" + column + ", ?) > 0", "instr(" + column + ", ?) > 0"}), []any{value})
	case segment.Equal, segment.Unequal:
		return condition{column + " " + string(op) + " ?", []any{value}}
	}
	return condition{column + s.in(dialects{postgres: ` COLLATE "C"`}) + " " + string(op) + " ?", []any{value}}
}

// twice is a value as often as the text of a prefix's comparison asks for it.
func (s *db) twice(value string) []any {
	if s.postgres {
		return []any{value}
	}
	return []any{value, value}
}

func negated(not bool, text string, args []any) condition {
	if not {
		text = "NOT (" + text + ")"
	}
	return condition{text, args}
}

// customField asks about a custom field of leads (alias l).
func (s *db) customField(c segment.Custom) condition {
	if s.postgres {
		return s.customOfPostgres(c)
	}
	of := func(value condition) condition {
		text := "EXISTS (SELECT 1 FROM json_each(l.custom_fields) AS f WHERE f.key = ?"
		if value.text != "" {
			text += " AND " + value.text
		}
		return condition{text + ")", append([]any{c.Name}, value.args...)}
	}
	switch c.Op {
	case segment.Set:
		return of(condition{})
	case segment.Unset:
		there := of(condition{})
		return condition{"NOT " + there.text, there.args}
	case segment.Unequal:
		is := s.valueOfSQLite(segment.Custom{Name: c.Name, Op: segment.Equal, Value: c.Value})
		return of(condition{"NOT (" + is.text + ")", is.args})
	}
	return of(s.valueOfSQLite(c))
}

// valueOfSQLite compares what json_each (alias f) has found.
func (s *db) valueOfSQLite(c segment.Custom) condition {
	switch value := c.Value.(type) {
	case string:
		is := s.compareText("f.value", c.Op, value)
		return condition{"f.type = 'text' AND " + is.text, is.args}
	case bool:
		if value {
			return condition{text: "f.type = 'true'"}
		}
		return condition{text: "f.type = 'false'"}
	}
	return condition{"f.type IN ('integer', 'real') AND f.value " + string(c.Op) + " ?", []any{c.Value}}
}

func (s *db) customOfPostgres(c segment.Custom) condition {
	const object = "l.custom_fields::jsonb"
	there := object + " -> ? IS NOT NULL"
	same, _ := toJSON(map[string]any{c.Name: c.Value}) // a text, a number or a boolean
	switch c.Op {
	case segment.Set:
		return condition{there, []any{c.Name}}
	case segment.Unset:
		return condition{object + " -> ? IS NULL", []any{c.Name}}
	case segment.Equal: // there is an index for it
		return condition{"l.custom_fields IS NOT NULL AND " + object + " @> ?::jsonb", []any{same}}
	case segment.Unequal:
		return condition{there + " AND NOT " + object + " @> ?::jsonb", []any{c.Name, same}}
	}
	if _, isNumber := c.Value.(float64); isNumber {
		return condition{"CASE WHEN jsonb_typeof(" + object + " -> ?) = 'number' THEN (" + object + " ->> ?)::float8 " + string(c.Op) + " ? END", []any{c.Name, c.Name, c.Value}}
	}
	value, _ := c.Value.(string)
	is := s.compareText("("+object+" ->> ?)", c.Op, value)
	return condition{"CASE WHEN jsonb_typeof(" + object + " -> ?) = 'string' THEN " + is.text + " END", append([]any{c.Name, c.Name}, is.args...)}
}
