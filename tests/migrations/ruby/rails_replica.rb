# One replica that migrates by ActiveRecord. Who finds its lock taken fails at once with ConcurrentMigrationError; whatever
# started it would start it again, which is a loop here.
require "active_record"
require "fileutils"
require "pg"

class Create < ActiveRecord::Migration[6.1]
  def up
    create_table(:steps) { |table| table.integer :step, null: false }
    execute "insert into steps (step) values (1)"
  end
end

class Column < ActiveRecord::Migration[6.1]
  def up
    add_column :steps, :said, :text
    execute "insert into steps (step, said) values (2, 'two')"
  end
end

class Rows < ActiveRecord::Migration[6.1]
  def up
    execute "insert into steps (step, said) select 3, 'three' from pg_sleep(2)"
  end
end

# An index that is made concurrently cannot be in a transaction, so the row is in one of its own.
class Index < ActiveRecord::Migration[6.1]
  disable_ddl_transaction!

  def up
    add_index :steps, :said, algorithm: :concurrently
    execute "insert into steps (step, said) values (4, 'four')"
  end
end

RETRIES_MAX = 600

def again_after(error)
  retries = 0
  begin
    yield
  rescue error
    raise if (retries += 1) > RETRIES_MAX
    sleep 0.1
    retry
  end
end

FileUtils.touch(ENV.fetch("MIGRATIONS_READY"))
$stdin.read
ActiveRecord::Base.establish_connection(
  adapter: "postgresql", host: "127.0.0.1", port: ENV.fetch("MIGRATIONS_PORT"), username: "u",
  database: ENV.fetch("MIGRATIONS_DATABASE"), application_name: ENV.fetch("MIGRATIONS_NAME")
)
steps = [Create, Column, Rows, Index].each.with_index(1).map { |step, version| step.new(step.name, version) }
# Its own tables are made before it takes its lock: "relation exists" is for who comes second, directly too.
again_after(ActiveRecord::StatementInvalid) do
  ActiveRecord::SchemaMigration.create_table
  ActiveRecord::InternalMetadata.create_table
end
again_after(ActiveRecord::ConcurrentMigrationError) do
  ActiveRecord::Migrator.new(:up, steps, ActiveRecord::SchemaMigration).migrate
end
