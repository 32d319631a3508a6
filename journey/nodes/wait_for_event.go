package nodes

var waitForEvent = Type{
	Name:   "waitForEvent",
	Schema: "WaitForEvent",
	About:  "Waits for an event of the lead, or for the first of several.",
	Members: []Member{
		{Name: "event", Kind: Event},
		{Name: "when", Kind: Condition, Draft: "a CEL condition"},
		timeout,
		{Name: "since", Kind: Text, Values: []string{"enrollment"}, Draft: "`enrollment` takes events since then"},
		{Name: "next", Kind: Way, Drawn: Words{"“{event}” came", "“{event}”已发生"}, Said: Words{"The event comes", "收到事件"}},
		{
			Name: "onTimeout", Kind: Way, Else: "next",
			Drawn: Words{"None within {timeout}", "{timeout}内未发生"}, Said: Words{"Time is over", "超时"},
		},
		{
			Name: "events", Kind: List, Min: 1, Max: 20, Way: "event",
			Of: []Member{
				{Name: "event", Kind: Event, Required: true},
				{Name: "when", Kind: Condition},
				next,
			},
			About: "The events of which the first that comes counts, instead of `event`, `when` and `next`.",
			Draft: "several, of which the first that comes counts; instead of `event`, `when` and `next`",
			Also:  "instead of `event`, `when` and `next`",
			Drawn: Words{"“{event}” came", "“{event}”已发生"},
			Said:  Words{"“{event}” comes", "收到“{event}”"},
		},
	},
	Rules: "oneOf:\n        - {required: [event], properties: {event: {type: string}}}\n" +
		"        - {required: [events], properties: {events: {type: array}, when: {not: {}}, next: {not: {}}}}",
	Enters: PhaseAwait,
	Waits:  ForEvent,
	Title:  Words{"Wait for event", "等待事件"},
	Hint:   Words{"Wait for what a lead does", "等待线索的行为"},
	Timeline: map[string]Words{
		"matched":  {"Event came", "事件已发生"},
		"timedOut": {"No event in time", "超时未发生事件"},
	},
	Results: map[string]Words{
		"matched":  {"The event came", "收到事件"},
		"timedOut": {"Time was over", "超时"},
	},
	Icon:   "M13 2.5 4.5 13.2a.6.6 0 0 0 .5 1h6l-1 7.3 8.5-10.7a.6.6 0 0 0-.5-1h-6z",
	Colour: Pause,
	Guide: "waits for an `event` of the lead whose `when` is true (any one without `when`), then goes to `next`; if none came when " +
		"`timeout` is over, to `onTimeout`, or to `next` without one. It may have [several `events`](#events) instead",
	Rule: "waits for an event of the lead, of several the first that comes; with `since: enrollment` earlier ones count. `onTimeout` is " +
		"`next` without it",
	Examples: []string{
		`{"event":"purchase","timeout":"5h"}`,
		`{"event":"login","timeout":"1ms"}`,
		`{"event":"purchase","timeout":"49h","when":"event.amount > 100","since":"enrollment"}`,
		`{"event":"login","timeout":"P7D","when":"lead.gender == 1 && event.tags[0] == 'x'"}`,
		`{"events":[{"event":"purchase","when":"event.amount > 100"},{"event":"login"},{"event":"purchase"}],"timeout":"5h"}`,
		`{"events":[{"event":"purchase"},{"event":"login","when":"event.amount > 100"}],"timeout":"P7D","since":"enrollment"}`,
	},
	Inserted: `{"timeout":"P7D"}`,
}
