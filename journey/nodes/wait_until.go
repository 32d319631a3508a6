package nodes

var waitUntil = Type{
	Name:   "waitUntil",
	Schema: "WaitUntil",
	About:  "Waits for a time of day, or for a date of the lead.",
	Members: []Member{
		{Name: "time", Kind: Clock, Draft: "HH:MM"},
		{Name: "timezone", Kind: Zone, Draft: "an IANA name; the lead's `customFields.timezone`, else UTC, if absent"},
		{
			Name: "weekdays", Kind: Choices, Min: 1, Max: 7, Values: []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"},
			Draft: "mon to sun; every day if absent",
		},
		{
			Name: "lead", Kind: Text, Pattern: `^(birthday|createdAt|updatedAt|customFields\..+)$`,
			About: "The lead's date that it counts from.", Draft: "the lead's date that it counts from",
		},
		{
			Name: "offset", Kind: Text, Pattern: `^[+-]?[P0-9.].*$`,
			About: "A duration of up to 366 days after that date, or before it with a minus.",
			Draft: "a duration after that date, or before it with a minus",
		},
		{Name: "next", Kind: Way, Drawn: Words{"Date reached", "日期已到"}, Said: Words{"The time comes", "到达时间"}},
		{
			Name: "onMissed", Kind: Way, With: "lead", Drawn: Words{"No such date", "没有该日期"}, Said: Words{"No such date", "没有该日期"},
			About: "With `lead`: where leads go whose date is missing, invalid, in the past or more than 100 years ahead. Every `lead` but\n" +
				"`birthday` needs it; without it they go to `next`.",
			Draft: "where leads go who have no such date to wait for, with `lead`",
		},
	},
	Rules:  "anyOf: [{required: [time], properties: {time: {type: string}}}, {required: [lead], properties: {lead: {type: string}}}]",
	Enters: PhaseDecide,
	Waits:  ForClock,
	Asks:   "until when",
	Title:  Words{"Wait until", "等待至"},
	Hint:   Words{"Wait for a time or a date", "等待到某个时间或日期"},
	Icon: "M6 5h12a2.5 2.5 0 0 1 2.5 2.5v10.5a2.5 2.5 0 0 1-2.5 2.5h-12a2.5 2.5 0 0 1-2.5-2.5v-10.5a2.5 2.5 0 0 1 2.5-2.5z" +
		"M8 3v4M16 3v4M3.5 10h17M9 15l2 2 4-4",
	Colour: Pause,
	Guide: "waits for a time of day, or for a date of the lead, then goes to `next`; where there is no such date to wait for, to " +
		"`onMissed`: see [below](#times-and-time-zones)",
	Rule: "waits for a time of day, or for a date of the lead (`birthday`, `createdAt`, `updatedAt`, `customFields.NAME`) moved by `offset` " +
		"(up to 366 days). `onMissed` is where leads go without such a date; a date other than `birthday` needs it",
	Examples: []string{
		`{"time":"09:00"}`,
		`{"time":"00:00","timezone":"Asia/Kathmandu","weekdays":["mon","wed","sat"]}`,
		`{"time":"02:30","timezone":"Europe/Berlin","weekdays":["tue"]}`,
		`{"lead":"birthday","time":"23:59"}`,
		`{"lead":"birthday","offset":"-72h","weekdays":["sat"]}`,
		`{"lead":"createdAt","offset":"P30D","timezone":"America/New_York"}`,
		`{"lead":"customFields.renewalDate","offset":"-72h","time":"18:15"}`,
		`{"lead":"customFields.none","offset":"+1h"}`,
	},
	Inserted: `{"time":"09:00"}`,
}
