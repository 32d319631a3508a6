package nodes

var emit = Type{
	Name:   "emit",
	Schema: "Emit",
	About:  "Stores an event of the lead as `POST /v1/events` does, once for each visit.",
	Members: []Member{
		{Name: "event", Kind: Event, Required: true},
		{
			Name: "properties", Kind: Templates, Max: 64, About: "Of the event. Strings are Liquid templates.", Draft: "of the event",
			Also: "16 KiB of JSON",
		},
		done, notDone,
	},
	Enters:  PhaseDecide,
	Acts:    true,
	Title:   Words{"Emit event", "发出事件"},
	Hint:    Words{"Store an event of the lead", "为线索记录一个事件"},
	Summary: Words{"Emit “{event}”", "发出“{event}”"},
	Timeline: map[string]Words{
		"emitted": {"Event emitted", "已发出事件"},
		"failed":  {"Event not emitted", "未能发出事件"},
	},
	Results: map[string]Words{
		"emitted": {"Event emitted", "已发出事件"},
		"failed":  {"Event not emitted", "未能发出事件"},
	},
	Icon:   "M12 12v.1M8 16a5.8 5.8 0 0 1 0-8M16 8a5.8 5.8 0 0 1 0 8M5 19a10 10 0 0 1 0-14M19 5a10 10 0 0 1 0 14",
	Colour: Other,
	Guide: "[stores an event](#changing-the-lead-and-emitting-events) of the lead, then goes to `next`; if it cannot be made, to " +
		"`onFailure`, or to `next` without one",
	Rule: "stores an event of the lead as `POST /v1/events` does, with the `eventId` `ENROLLMENT/NODE/VISIT`. Strings are templates. " +
		"One that fails goes to `onFailure`, or to `next` without it. An enrollment that is the eleventh in a row, each of which began " +
		"the next by an event or an `enroll` without a wait before it, ends as `failed`",
	Examples: []string{
		`{"event":"purchase","properties":{"amount":"{{ lead.customFields.score | times: 30 }}"}}`,
		`{"event":"login","properties":{"n":1.50,"list":["{{ lead.name }}",null]}}`,
		`{"event":"purchase","properties":{"amount":"{{ 1 | divided_by: lead.customFields.none }}"}}`,
	},
}
